// Engines on GPUs of the mock: ranks that are threads.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "comm/thread_group.h"
#include "engine/runtime/runtime.h"
#include "nccl/members.h"

namespace xoe::testing {

// One rank: its engine, its GPU, and a stream that is busy when operations are submitted.
class GpuRank {
 public:
  // REQUIRES: the thread's device is the rank's.
  GpuRank(std::shared_ptr<engine::Runtime> runtime, int rank) : runtime_(std::move(runtime)), rank_(rank) {}

  int rank() const { return rank_; }
  engine::Runtime& runtime() { return *runtime_; }
  const Stream& stream() const { return stream_; }

  Result<EngineHandle> submit(Request request) {
    request.op.gpu = true;
    request.stream = stream_.get();
    auto submission = runtime_->submit(request, engine::Runtime::Use::kAsync);
    if (!submission) return failure(submission.error());
    return EngineHandle(std::move(*submission));
  }
  Status run(const Request& request) {
    XOE_ASSIGN(EngineHandle handle, submit(request));
    return handle.wait();
  }
  void expect_run(const Request& request) {
    const Status status = run(request);
    EXPECT_TRUE(status) << status.error().message();
  }

 private:
  std::shared_ptr<engine::Runtime> runtime_;
  int rank_;
  Stream stream_;
};

// How ranks use their GPUs.
struct GpuUse {
  std::string requested = "auto";
  std::size_t staging_bytes = engine::GpuSettings().staging_bytes;
  bool has_nccl = true;
  bool many_ranks = false;
  bool waits_in_stream = false;
  std::function<void(std::string_view)> warn = [](std::string_view) {};
};

inline std::shared_ptr<engine::GpuPlugin> plugin_of(MockMachine& machine, int device, const GpuUse& use) {
  const auto open = [&machine, device, use]() -> Result<std::unique_ptr<net::Provider>> {
    nccl::Libraries libraries = use.has_nccl
                                    ? libraries_of(machine)
                                    : nccl::without_nccl(mock_cuda_api(), mock_nvml_api(), "no libnccl.so.2 here");
    return nccl::make_provider(std::move(libraries), {.local_rank = device, .many_ranks = use.many_ranks});
  };
  return std::make_shared<engine::GpuPlugin>(open, engine::GpuSettings{.requested = use.requested,
                                                                       .staging_bytes = use.staging_bytes,
                                                                       .waits_in_stream = use.waits_in_stream});
}

inline Result<std::shared_ptr<engine::Runtime>> make_gpu_runtime(MockMachine& machine, Communicator comm, int device,
                                                                 const GpuUse& use) {
  EngineOptions options;
  options.tune = false;
  options.warn = use.warn;
  return engine::Runtime::create(std::move(comm), options, plugin_of(machine, device, use));
}

// No rank leaves before all are done.
inline void leave_together(engine::Runtime& runtime) {
  auto barrier = runtime.submit({.op = {.kind = OpKind::kBarrier}}, engine::Runtime::Use::kAsync);
  if (barrier) (void)runtime.wait(**barrier, std::nullopt);
  runtime.shut_down();
}

// Runs body(rank) on a thread for each rank. Ranks beyond the last GPU share it.
inline void run_gpu_ranks(MockMachine& machine, int size, const std::function<void(GpuRank&)>& body,
                          const std::function<GpuUse(int)>& use_of) {
  auto group = make_group(size);
  std::vector<std::jthread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r, comm = std::move(group[static_cast<std::size_t>(r)])]() mutable {
      const int device = std::min(r, machine.device_count - 1);
      (void)mock_cuda_api().set_device(device);
      auto runtime = make_gpu_runtime(machine, std::move(comm), device, use_of(r));
      ASSERT_TRUE(runtime) << runtime.error().message();
      {
        GpuRank rank(*runtime, r);
        body(rank);
      }
      leave_together(**runtime);
    });
}
inline void run_gpu_ranks(MockMachine& machine, int size, const std::function<void(GpuRank&)>& body,
                          const GpuUse& use = {}) {
  run_gpu_ranks(machine, size, body, [&](int) { return use; });
}

template <class T>
std::vector<T> values_of(const OnGpu<T>& data) {
  return {data.data(), data.data() + data.size()};
}

template <class T>
TensorArg in_place(const OnGpu<T>& data, const std::vector<std::int64_t>& shape) {
  return {data.data(), data.data(), dtype_of<T>(), shape};
}

}  // namespace xoe::testing
