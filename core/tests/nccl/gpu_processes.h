// Ranks that are processes and share one GPU: each has a mock of its own, and the numbers meet in host memory.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/tests/comm/process_group.h"
#include "core/tests/nccl/gpu_ranks.h"

namespace xoe::testing {

inline constexpr std::size_t kStagedCount = 200000;  // several rounds

// Runs body(rank) on an engine with a GPU; "" or what went wrong.
inline std::string on_gpu(Communicator& comm, const std::function<std::string(GpuRank&)>& body) {
  MockMachine machine(1);
  (void)mock_cuda_api().set_device(0);
  const int own = comm.rank();
  auto runtime = make_gpu_runtime(machine, std::move(comm), 0, {.staging_bytes = std::size_t{128} << 10});
  if (!runtime) return runtime.error().to_string();
  std::string problem;
  {
    GpuRank rank(*runtime, own);
    problem = body(rank);
  }
  if (problem.empty()) leave_together(**runtime);
  (*runtime)->shut_down();
  for (const std::string& misuse : machine.misuses()) problem += misuse + "; ";
  return problem.empty() ? machine.leaks() : problem;
}

inline std::string problem_of(const Status& status) { return status ? "" : status.error().to_string(); }

inline std::string expect_all(const OnGpu<float>& data, float value, std::string_view what) {
  for (std::size_t i = 0; i < data.size(); ++i)
    if (data[i] != value) return fmt::format("{}: [{}] is {}, not {}; ", what, i, data[i], value);
  return "";
}

// Every kind of operation, with values that tell the ranks apart.
inline std::string run_all_kinds(GpuRank& rank) {
  const int size = rank.runtime().topology().size;
  const auto rows = static_cast<std::int64_t>(kStagedCount), parts = static_cast<std::int64_t>(size);
  const auto own = static_cast<float>(rank.rank() + 1), total = static_cast<float>(size * (size + 1) / 2);
  const OnGpu<float> data(kStagedCount, own), all(kStagedCount * static_cast<std::size_t>(size));
  const std::vector<std::int64_t> shape{rows}, whole{rows * parts};
  std::vector tensors{in_place(data, shape)};
  std::string problem = problem_of(rank.run({.name = "sum", .tensors = tensors}));
  problem += expect_all(data, total, "allreduce");
  std::fill_n(data.data(), kStagedCount, own);
  problem += problem_of(rank.run({.name = "root", .op = {.kind = OpKind::kBroadcast, .root = 1}, .tensors = tensors}));
  problem += expect_all(data, 2, "broadcast");
  std::fill_n(data.data(), kStagedCount, own);
  tensors = {{data.data(), all.data(), DType::kFloat32, shape}};
  problem += problem_of(rank.run({.name = "rows", .op = {.kind = OpKind::kAllgather}, .tensors = tensors}));
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != static_cast<float>(i / kStagedCount + 1))
      return problem + fmt::format("allgather: [{}] is {}", i, all[i]);
  tensors = {{all.data(), data.data(), DType::kFloat32, whole}};
  problem += problem_of(rank.run({.name = "part", .op = {.kind = OpKind::kReduceScatter}, .tensors = tensors}));
  problem += expect_all(data, own * static_cast<float>(size), "reduce_scatter");
  const OnGpu<float> received(all.size());
  std::fill_n(all.data(), all.size(), own);
  tensors = {{all.data(), received.data(), DType::kFloat32, whole}};
  problem += problem_of(rank.run({.name = "exchange", .op = {.kind = OpKind::kAlltoall}, .tensors = tensors}));
  for (std::size_t i = 0; i < all.size(); ++i)
    if (received[i] != static_cast<float>(i / kStagedCount + 1))
      return problem + fmt::format("alltoall: [{}] is {}", i, received[i]);
  return problem;
}

}  // namespace xoe::testing
