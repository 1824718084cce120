#include "core/backend/nccl/placeholder_buffers.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/backend/nccl/device.h"
#include "core/base/error.h"
#include "core/reduce/neutral.h"

namespace xoe::nccl {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

PlaceholderBuffers::PlaceholderBuffers(std::shared_ptr<const Libraries> libraries, int device)
    : libraries_(std::move(libraries)), device_(device) {}

PlaceholderBuffers::~PlaceholderBuffers() {
  if (memory_ == nullptr) return;
  const DeviceScope scope(*libraries_, device_);
  (void)libraries_->cuda.free(memory_);
}

Result<std::byte*> PlaceholderBuffers::allocate(std::size_t bytes) {
  if (bytes <= bytes_) return memory_;
  const CudaApi& cuda = libraries_->cuda;
  if (memory_ != nullptr) (void)cuda.free(std::exchange(memory_, nullptr));
  bytes_ = 0;
  void* memory = nullptr;
  XOE_CUDA(cuda, malloc, &memory, std::bit_ceil(bytes));
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = std::bit_ceil(bytes);
  return memory_;
}

Result<Collective> PlaceholderBuffers::substitute(const Collective& collective, std::vector<Segment>& segments,
                                                  CudaStream stream) {
  Collective whole = collective;
  const std::size_t width = dtype_size(whole.dtype);
  const auto needed = [width](const void* memory, std::size_t count) {
    return memory == nullptr && count != 0 ? aligned(count * width) : 0;
  };
  const bool listed = !whole.segments.empty();
  std::size_t in = listed ? 0 : needed(whole.in, whole.in_count), out = listed ? 0 : needed(whole.out, whole.out_count);
  for (const Segment& segment : whole.segments) {
    in += needed(segment.in, segment.count);
    out += needed(segment.out, segment.count);
  }
  if (in + out == 0) return whole;
  XOE_ASSIGN(std::byte * in_at, allocate(in + out));
  std::byte* out_at = in_at + in;
  if (in != 0 && is_reduction(whole.kind)) {
    neutral_.resize(in / sizeof(double));
    reduce::fill_neutral(neutral_.data(), in / width, whole.dtype, whole.op);
    XOE_CUDA(libraries_->cuda, memcpy_async, in_at, neutral_.data(), in, CudaCopy::kDefault, stream);
  }
  const auto take = [&](auto* given, std::size_t count, std::byte*& at) -> decltype(given) {
    const std::size_t bytes = needed(given, count);
    return bytes == 0 ? given : std::exchange(at, at + bytes);
  };
  if (!listed) {
    whole.in = take(whole.in, whole.in_count, in_at);
    whole.out = take(whole.out, whole.out_count, out_at);
    return whole;
  }
  segments.assign(whole.segments.begin(), whole.segments.end());
  for (Segment& segment : segments) {
    segment.in = take(segment.in, segment.count, in_at);
    segment.out = take(segment.out, segment.count, out_at);
  }
  whole.segments = segments;
  return whole;
}

}  // namespace xoe::nccl
