// A group's failure, to the launcher.
#pragma once

#include "core/backend/backend.h"
#include "xoe/status.h"

namespace xoe {

// If the error is `peer_lost`, the launcher learns, once for each group, which ranks it names: should this rank fail
// now, they are the cause. Takes a quarter of a second at most. Any thread.
void tell_of_loss(Backend& group, const Error& cause);

}  // namespace xoe
