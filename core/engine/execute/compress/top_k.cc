#include "core/engine/execute/compress/codecs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <memory>

#include "core/engine/execute/compress/feedback.h"

namespace xoe::engine {
namespace {

// Magnitudes of floats order like their bits. A bin is an eighth of an octave.
constexpr int kBinShift = 20;
constexpr std::size_t kBins = std::size_t{1} << (31 - kBinShift);

inline std::uint32_t magnitude_bits(float value) noexcept { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFF; }

// Larger for larger magnitudes, and among equal ones for smaller indices.
inline std::uint64_t key_of(float value, std::size_t index) noexcept {
  return std::uint64_t{magnitude_bits(value)} << 32 | (0xFFFFFFFF - index);
}

std::array<std::size_t, kBins> histogram(std::span<const float> values) {
  // Neighbours often share a bin: separate counters let their increments overlap.
  constexpr std::size_t kLanes = 4;
  std::array<std::array<std::uint32_t, kLanes>, kBins> lanes = {};
  std::array<std::size_t, kBins> bins = {};
  for (std::size_t i = 0; i < values.size(); ++i) ++lanes[magnitude_bits(values[i]) >> kBinShift][i % kLanes];
  for (std::size_t b = 0; b < kBins; ++b)
    for (const std::uint32_t count : lanes[b]) bins[b] += count;
  return bins;
}

}  // namespace

std::span<const std::uint32_t> TopSelector::select(std::span<const float> values, std::size_t count) {
  const auto bins = histogram(values);
  std::size_t bin = kBins - 1, above = 0;
  while (above + bins[bin] < count) above += bins[bin--];
  // The last value to send is in `bin`: only there the order matters.
  candidates_.clear();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (magnitude_bits(values[i]) >> kBinShift == bin) candidates_.push_back(key_of(values[i], i));
  const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(count - above - 1);
  std::nth_element(candidates_.begin(), last, candidates_.end(), std::greater<>());
  const std::uint64_t threshold = *last;
  indices_.clear();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (key_of(values[i], i) >= threshold) indices_.push_back(static_cast<std::uint32_t>(i));
  return indices_;
}

void TopK::collect(std::span<float> values, std::span<TopKEntry> own) {
  if (error_feedback_) {
    fit_residual(residual_, values.size());
    add_residual(values, residual_);
  }
  const auto chosen = scratch_->selector.select(values, own.size());
  for (std::size_t k = 0; k < own.size(); ++k) own[k] = {chosen[k], values[chosen[k]]};
  if (error_feedback_) {
    std::ranges::transform(values, residual_.begin(), finite_or_zero);
    for (const TopKEntry& entry : own) residual_[entry.index] = 0.0F;
  }
}

Task TopK::allreduce(Communicator& comm, std::span<float> values) {
  static_assert(sizeof(TopKEntry) == 8);
  const std::size_t n = values.size();
  if (comm.size() == 1 || n == 0) co_return Status();
  if (n - 1 > std::numeric_limits<std::uint32_t>::max())
    co_return failure(Code::kUnsupported, "top-k compression: {} values are more than its 32-bit indices can tell", n);
  const auto ranks = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());
  const std::size_t k = std::clamp<std::size_t>(static_cast<std::size_t>(ratio_ * static_cast<double>(n)), 1, n);
  scratch_->entries.resize(k * ranks);
  byte_counts_.assign(ranks, k * sizeof(TopKEntry));
  const auto own = std::span(scratch_->entries).subspan(rank * k, k);
  collect(values, own);
  const ConstTensor mine(own.data(), own.size_bytes(), DType::kUint8);
  const Tensor all(scratch_->entries.data(), scratch_->entries.size() * sizeof(TopKEntry), DType::kUint8);
  XOE_CO_TRY(comm.start_allgather(mine, all, byte_counts_));
  std::ranges::fill(values, 0.0F);
  for (const TopKEntry& entry : scratch_->entries) {
    if (entry.index >= n)
      co_return failure(Code::kDataLoss, "top-k compression: index {} among {} values", entry.index, n);
    values[entry.index] += entry.value;
  }
  co_return Status();
}

}  // namespace xoe::engine
