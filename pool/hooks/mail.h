// Mail through a command such as `sendmail -t`.
#pragma once

#include <string>

#include "pool/hooks/notice.h"
#include "xoe/status.h"

namespace xoe::pool {

// Runs the command with /bin/sh, with the mail as its input. `unavailable`: it failed, and what it said; `timeout`: it
// took longer than 20 s and was killed. The caller ignores SIGPIPE.
Status send_mail(const std::string& command, const std::string& domain, const Notice& notice);

}  // namespace xoe::pool
