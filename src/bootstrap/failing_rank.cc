#include "bootstrap/failing_rank.h"

#include <unistd.h>

#include <chrono>

#include "base/error.h"
#include "bootstrap/launch_env.h"
#include "bootstrap/store.h"

namespace xoe::bootstrap {

Status announce_failing(const Env& env) {
  XOE_ASSIGN(const LaunchInfo info, read_launch_info(env));
  if (info.launcher != "xoe" || !(info.store.starts_with("unix:") || info.store.starts_with("tcp:"))) return {};
  XOE_ASSIGN(const auto store, open_store(info, std::chrono::seconds(1)));
  return store->set(fmt::format("{}/{}", kFailingRankKey, info.topology.rank), std::to_string(::getpid()));
}

}  // namespace xoe::bootstrap
