// Speed of the reduction kernels. bytes_per_second counts what is loaded and stored; items are elements.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "core/reduce/reduce.h"

namespace xoe {
namespace {

class Buffers {
 public:
  Buffers(std::size_t n, std::size_t bytes) {
    const std::size_t room = (std::max<std::size_t>(bytes, 64) + 4095) / 4096 * 4096;
    for (std::size_t k = 0; k < n; ++k) {
      memory_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(4096, room)));
      std::memset(memory_.back().get(), 0, room);
    }
  }
  template <class T>
  std::vector<T*> pointers() const {
    std::vector<T*> result;
    for (const auto& block : memory_) result.push_back(block.get());
    return result;
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> memory_;
};

// In place: `outs` of the `ins` inputs receive the result.
void reduce_in_place(benchmark::State& state, DType dtype, ReduceOp op, std::size_t ins, std::size_t outs) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const Buffers buffers(ins, count * dtype_size(dtype));
  const auto in = buffers.pointers<const void>();
  auto out = buffers.pointers<void>();
  out.resize(outs);
  for (auto _ : state) {
    reduce::reduce_into(out, in, count, dtype, op);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>((ins + outs) * count * dtype_size(dtype)));
}

void cast_types(benchmark::State& state, DType from, DType to) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const Buffers buffers(2, count * 8);
  const auto memory = buffers.pointers<void>();
  for (auto _ : state) {
    reduce::cast(memory[0], from, memory[1], to, count);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void add(DType dtype, ReduceOp op, std::size_t ins, std::size_t outs, const std::vector<std::int64_t>& counts) {
  const std::string name = std::string(dtype_name(dtype)) + "/" + std::string(reduce_op_name(op)) + "/" +
                           std::to_string(ins) + "to" + std::to_string(outs);
  auto* entry = benchmark::RegisterBenchmark(
      name.c_str(), [=](benchmark::State& state) { reduce_in_place(state, dtype, op, ins, outs); });
  for (const std::int64_t count : counts) entry->Arg(count);
}

void add_all() {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    add(dtype, ReduceOp::kSum, 2, 1, {1, 15, 1024, 1 << 18});
    add(dtype, ReduceOp::kSum, 2, 2, {1, 15, 1024, 16384, 1 << 18, 1 << 24});
    for (const std::size_t n : {4, 8, 64}) add(dtype, ReduceOp::kSum, n, n, {1, 1024, 1 << 18});
    add(dtype, ReduceOp::kAverage, 2, 2, {1 << 18});
    add(dtype, ReduceOp::kAverage, 3, 3, {1 << 18});
    add(dtype, ReduceOp::kMax, 2, 2, {1 << 18});
  }
  for (const DType dtype : {DType::kFloat64, DType::kInt8, DType::kInt32, DType::kInt64, DType::kBool}) {
    add(dtype, ReduceOp::kSum, 2, 2, {1, 1024, 1 << 18});
  }
  add(DType::kInt32, ReduceOp::kAverage, 2, 2, {1 << 18});
  const DType floats[] = {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64};
  for (const DType from : floats) {
    for (const DType to : floats) {
      const std::string name = "cast/" + std::string(dtype_name(from)) + "/" + std::string(dtype_name(to));
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
        cast_types(state, from, to);
      })->Arg(1 << 16);
    }
  }
}

}  // namespace
}  // namespace xoe

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  xoe::add_all();
  benchmark::RunSpecifiedBenchmarks();
}
