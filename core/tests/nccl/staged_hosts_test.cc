// GPU memory that is staged on several hosts: it goes the way of host memory, through the net between them.
#include "core/tests/nccl/gpu_processes.h"

namespace xoe::testing {
namespace {

TEST(GpuHosts, StageThroughTheNet) {
  ProcessGroup ranks(std::vector<int>{0, 0, 1}, [](Communicator& comm) { return on_gpu(comm, run_all_kinds); });
  ranks.expect_success();
}

}  // namespace
}  // namespace xoe::testing
