// A rank that allreduces and broadcasts, from each rank in turn, without pause until something goes wrong, and then
// says what and when.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "xoe/xoe.h"

namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// kill_worker ELEMENTS private|shared
int main(int argc, char** argv) {
  // The launcher ends survivors with SIGTERM; here they are to tell their story first.
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, nullptr);

  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  const bool shared = argc > 2 && argv[2][0] == 's';
  auto world = xoe::init();
  if (!world) {
    std::printf("init %.6f %s\n", now_seconds(), world.error().to_string().c_str());
    return 4;
  }
  xoe::SharedBuffer buffer = world->shared_buffer(shared ? count * sizeof(float) : 1).value();
  std::vector<float> own(shared ? 0 : count);
  const xoe::Tensor tensor(shared ? buffer.as<float>().data() : own.data(), count);
  std::printf("ready %d %d\n", world->rank(), ::getpid());
  std::fflush(stdout);
  for (int root = 0;; root = (root + 1) % world->size()) {
    xoe::Status status = world->allreduce(tensor, xoe::ReduceOp::kMax);
    if (status) status = world->broadcast(tensor, root);
    if (!status) {
      std::printf("failed %.6f %s\n", now_seconds(), status.error().to_string().c_str());
      return 3;
    }
  }
}
