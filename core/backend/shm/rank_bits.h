// A set of a host's ranks in shared memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace xoe::shm {

inline constexpr int kMaxRanks = 512;

// Ranks are added by any of them, and never taken out. A rank that sees another one in the set sees what that rank did
// before. Zero bytes are the empty set.
class RankBits {
 public:
  void add(int rank) noexcept { words_[word(rank)].fetch_or(bit(rank), std::memory_order_acq_rel); }
  bool has(int rank) const noexcept { return (words_[word(rank)].load(std::memory_order_acquire) & bit(rank)) != 0; }

  // The set as it was at one moment, as far as a group of `size` ranks needs it.
  class Copy {
   public:
    bool empty() const noexcept { return words_ == decltype(words_){}; }
    bool has(int rank) const noexcept { return (words_[word(rank)] & bit(rank)) != 0; }

   private:
    friend RankBits;
    std::array<std::uint64_t, kMaxRanks / 64> words_{};
  };
  Copy copy(int size) const noexcept {
    Copy copy;
    for (std::size_t w = 0; w <= word(size - 1); ++w) copy.words_[w] = words_[w].load(std::memory_order_acquire);
    return copy;
  }

 private:
  static constexpr std::size_t word(int rank) noexcept { return static_cast<std::size_t>(rank) / 64; }
  static constexpr std::uint64_t bit(int rank) noexcept { return std::uint64_t{1} << rank % 64; }

  std::atomic<std::uint64_t> words_[kMaxRanks / 64];
};

}  // namespace xoe::shm
