#include "core/comm/tell_of_loss.h"

#include "core/base/env.h"
#include "core/bootstrap/failing_rank.h"
#include "core/comm/world_history.h"

namespace xoe {

void tell_of_loss(Backend& group, const Error& cause) {
  if (cause.code() != Code::kPeerLost || !group.first_loss()) return;
  auto& history = WorldHistory::of_process();
  history.lost(cause.message());
  bootstrap::announce_lost_peers(Env::process(), cause.message(), history.version());
}

}  // namespace xoe
