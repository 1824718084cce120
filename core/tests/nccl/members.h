// Members of an NCCL net as threads, each on a GPU of the mock.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/backend/nccl/provider.h"
#include "core/tests/drivers/mock_machine.h"
#include "core/tests/net/net_group.h"

namespace xoe::testing {

inline nccl::Libraries libraries_of(const MockMachine& machine) {
  return nccl::make_libraries(machine.nccl_api(), mock_cuda_api(), mock_nvml_api()).value();
}

inline std::unique_ptr<net::Provider> open_nccl(const MockMachine& machine, nccl::ProviderOptions options) {
  auto provider = nccl::make_provider(libraries_of(machine), std::move(options));
  if (!provider) throw std::runtime_error(provider.error().to_string());
  return std::move(*provider);
}

// Runs body(net, member) on a thread for each member, whose GPU has the same number.
inline void run_members(MockMachine& machine, int size, const std::function<void(net::Net&, int)>& body,
                        const nccl::ProviderOptions& options = {}) {
  ExchangeTable table(size);
  std::vector<std::jthread> threads;
  for (int m = 0; m < size; ++m)
    threads.emplace_back([&, m] {
      nccl::ProviderOptions own = options;
      own.local_rank = m;
      (void)mock_cuda_api().set_device(m);
      const auto provider = open_nccl(machine, own);
      const auto net = connect(*provider, table, size, m);
      body(*net, m);
    });
}

// What a test must leave.
inline void expect_clean(MockMachine& machine) {
  EXPECT_EQ(machine.leaks(), "");
  for (const std::string& misuse : machine.misuses()) ADD_FAILURE() << misuse;
}

// Memory of the thread's GPU.
template <class T>
class OnGpu {
 public:
  explicit OnGpu(std::size_t count, T value = {}) : count_(count) {
    void* memory = nullptr;
    (void)mock_cuda_api().malloc(&memory, std::max<std::size_t>(count * sizeof(T), 1));
    data_ = static_cast<T*>(memory);
    std::fill_n(data_, count, value);
  }
  OnGpu(const OnGpu&) = delete;
  ~OnGpu() { (void)mock_cuda_api().free(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) const { return data_[i]; }

 private:
  std::size_t count_;
  T* data_;
};

// A stream of the thread's GPU.
class Stream {
 public:
  Stream() { (void)mock_cuda_api().stream_create_with_flags(&stream_, 1); }
  Stream(const Stream&) = delete;
  ~Stream() { (void)mock_cuda_api().stream_destroy(stream_); }

  CudaStream get() const { return stream_; }
  void copy(void* to, const void* from, std::size_t bytes) const {
    (void)mock_cuda_api().memcpy_async(to, from, bytes, CudaCopy::kDefault, stream_);
  }
  void wait() const {
    CudaEvent event = nullptr;
    const CudaApi cuda = mock_cuda_api();
    (void)cuda.event_create_with_flags(&event, 2);
    (void)cuda.event_record(event, stream_);
    while (cuda.event_query(event) == CudaError::kNotReady) std::this_thread::yield();
    (void)cuda.event_destroy(event);
  }

 private:
  CudaStream stream_ = nullptr;
};

inline Collective gpu_allreduce(float* data, std::size_t count, ReduceOp op = ReduceOp::kSum) {
  return {.kind = CollectiveKind::kAllreduce,
          .dtype = DType::kFloat32,
          .op = op,
          .in = data,
          .out = data,
          .in_count = count,
          .out_count = count,
          .options = {.name = "conv1.weight"},
          .device = true};
}

// Takes collectives of host memory, as the conformance suite has them, through GPU memory and a stream of its own. The
// stream still runs when the net is called, and only the net waits for it.
class ThroughGpu final : public net::Net {
 public:
  explicit ThroughGpu(net::Net& net) : net_(net) {}

  std::string_view name() const noexcept override { return net_.name(); }
  Status supports(const Collective& c) const override { return net_.supports(c); }
  void abort() noexcept override { net_.abort(); }

  Status run(const Collective& given, Clock::time_point deadline) override {
    if (given.kind == CollectiveKind::kBarrier) return net_.run(given, deadline);
    const auto* const in = static_cast<const std::byte*>(given.in);
    auto* const out = static_cast<std::byte*>(given.out);
    const std::size_t width = dtype_size(given.dtype);
    const std::size_t in_bytes = given.in_count * width, out_bytes = given.out_count * width;
    // In place, one of them lies within the other.
    const bool in_place =
        in < out + std::max<std::size_t>(out_bytes, 1) && out < in + std::max<std::size_t>(in_bytes, 1);
    const std::byte* const low = std::min<const std::byte*>(in, out);
    const std::size_t whole =
        static_cast<std::size_t>(std::max<const std::byte*>(in + in_bytes, out + out_bytes) - low);
    const OnGpu<std::byte> first(in_place ? whole : in_bytes), second(in_place ? 0 : out_bytes);
    Collective c = given;
    c.device = true;
    c.stream = stream_.get();
    c.in = in_place ? first.data() + (in - low) : first.data();
    c.out = in_place ? first.data() + (out - low) : second.data();
    if (in_bytes != 0) stream_.copy(const_cast<void*>(c.in), in, in_bytes);
    const Status status = net_.run(c, deadline);
    if (!status) return status;
    if (out_bytes != 0) stream_.copy(out, c.out, out_bytes);
    stream_.wait();
    return status;
  }

 private:
  net::Net& net_;
  Stream stream_;
};

}  // namespace xoe::testing
