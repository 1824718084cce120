// A rank for tests: says where it stands, and meets the others in the store.
#include <cstdio>
#include <string>

#include "core/base/env.h"
#include "core/bootstrap/launch_env.h"
#include "core/bootstrap/store.h"

int main() {
  using namespace std::chrono_literals;
  const auto info = xoe::bootstrap::read_launch_info(xoe::Env::process());
  if (!info) {
    std::fprintf(stderr, "%s\n", info.error().to_string().c_str());
    return 1;
  }
  auto store = xoe::bootstrap::open_store(*info, 20s);
  if (!store) {
    std::fprintf(stderr, "%s\n", store.error().to_string().c_str());
    return 1;
  }
  const auto& at = info->topology;
  if (!(*store)->set("rank" + std::to_string(at.rank), info->job)) return 1;
  for (const char* phase : {"rank", "done"}) {
    for (int peer = 0; peer < at.size; ++peer) {
      const auto job = (*store)->get(phase + std::to_string(peer), 20s);
      // When rank 0 has seen all, the others may find its store gone.
      if (!job && std::string(phase) == "done" && job.error().code() == xoe::Code::kPeerLost) break;
      if (!job || *job != info->job) return 1;
    }
    if (!(*store)->set("done" + std::to_string(at.rank), info->job) && at.rank == 0) return 1;
  }
  std::printf("%s rank %d of %d local %d of %d met\n", info->launcher.c_str(), at.rank, at.size, at.local_rank,
              at.local_size);
  return 0;
}
