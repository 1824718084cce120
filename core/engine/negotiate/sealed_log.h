// The log of a process set on one host: what its ranks run, in one order, cut by seals into parts that all ranks batch
// alike. It lies in memory that the ranks share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/backend/host_group.h"
#include "core/engine/negotiate/shared_layout.h"

namespace xoe::engine {

enum class LogKind : std::uint8_t { kRun, kBarrier, kMismatch, kJoinForbids, kAllJoined };

// A line of the log. For kAllJoined `entry` is the rank of the set that joined last.
struct LogLine {
  LogKind kind = LogKind::kRun;
  int entry = 0;                // of the readiness table
  std::uint8_t generation = 0;  // of the entry, its low bits
};

inline constexpr int kMaxLogEntries = 1 << 24;  // a line has 24 bits for its entry
inline constexpr std::uint32_t kMaxGrowths = 19;

// INVARIANTS of the ring and of the log
//
// 1. A position belongs to the rank that reserved it by adding to the tail. That rank fills it once, with one store
//    (release) of one word that holds the position and the line. A slot that holds another position is not filled yet.
//    So a reader needs no more than one load (acquire) of the slot.
// 2. Positions may be filled out of order. A seal ends at or before the first position that is not filled.
// 3. A part of the log is sealed by one word beside its first line, which was cleared before that line was filled. Only
//    the first rank that stores it decides where the part ends (compare-exchange), and it never moves: all ranks run
//    the same parts of the log with the same knobs.
// 4. Slots are reused. A line of an entry of the readiness table is unsealed at most once, so the ring, twice as long
//    as the table, has room for all unsealed lines; a rank seals nothing more than half a ring past the position that
//    all ranks have completed.
// 5. When the table doubles, so does the ring: later positions lie in a new arc, as long as all before it together. The
//    tail holds the newest arc's number above the position, and the rank that starts an arc writes where it begins
//    before it changes the tail (compare-exchange). So a rank that reserves a position knows its arc. Before it fills
//    the position it sees to it that all ranks know that the arc exists.

// Lines that any rank adds and any rank reads.
class LogRing {
 public:
  LogRing() = default;
  // capacity: of the readiness table.
  LogRing(SharedLayout& memory, const HostBlocks& blocks, int capacity);

  // append() in two steps: what must be visible before the line is, the caller stores in between.
  std::uint64_t reserve() noexcept;
  void fill(std::uint64_t position, LogLine line) noexcept;
  // False: the position is not filled yet.
  bool read(std::uint64_t position, LogLine& line) const noexcept {
    const std::uint64_t word = slot(position).line.load(std::memory_order_acquire);
    if (!holds(word, position)) return false;
    line = {static_cast<LogKind>((word >> 24 & 0xf) - 1), static_cast<int>(word & 0xffffff),
            static_cast<std::uint8_t>(word >> 28 & 0xff)};
    return true;
  }

  // The word of a seal beside the line at `position`; 0: there is none. REQUIRES for store_seal(): the line is filled.
  std::uint64_t seal(std::uint64_t position) const noexcept {
    const Slot& at = slot(position);
    return holds(at.line.load(std::memory_order_acquire), position) ? at.seal.load(std::memory_order_acquire) : 0;
  }
  // False: there is one.
  bool store_seal(std::uint64_t position, std::uint64_t word) noexcept;

  std::uint64_t tail() const noexcept { return header_->tail.load(std::memory_order_acquire) & kPositionBits; }
  std::size_t size() const noexcept { return arc_size(header_->newest.load(std::memory_order_acquire)); }

  // Starts arc 1, 2, ... in a block of arc_bytes(arc), zero at first. One rank at a time.
  std::size_t arc_bytes(std::uint32_t arc) const noexcept { return arc_size(arc) * sizeof(Slot); }
  void start_arc(std::uint32_t arc, std::uint64_t block) noexcept;

  bool same_as(const LogRing& other) const noexcept { return header_ == other.header_; }

 private:
  struct Slot {
    std::atomic<std::uint64_t> line;
    std::atomic<std::uint64_t> seal;
  };
  struct alignas(64) Header {
    std::atomic<std::uint64_t> tail;  // arc:8, position:56
    alignas(64) std::atomic<std::uint32_t> newest;
    // By arc; of arc 0 unused.
    std::uint64_t begins[kMaxGrowths + 1];
    std::uint64_t blocks[kMaxGrowths + 1];
  };
  // A line's word: the low 28 bits of 1 + its position, generation:8, 1 + kind:4, entry:24. Never 0. A ring is shorter
  // than 2^28 lines, so no earlier line of a slot has the same position bits.
  static constexpr int kPositionShift = 36;
  static std::uint64_t position_bits(std::uint64_t position) noexcept { return (position + 1) << kPositionShift; }
  static bool holds(std::uint64_t word, std::uint64_t position) noexcept {
    return word != 0 && word >> kPositionShift == position_bits(position) >> kPositionShift;
  }

  static constexpr int kArcShift = 56;
  static constexpr std::uint64_t kPositionBits = (std::uint64_t{1} << kArcShift) - 1;

  // Each arc is as long as twice the entries of the table by then.
  std::size_t arc_size(std::uint32_t arc) const noexcept { return (mask_ + 1) << arc; }
  Slot& slot(std::uint64_t position) const noexcept {
    if (header_->newest.load(std::memory_order_acquire) == 0) [[likely]]
      return slots_[position & mask_];
    return later_slot(position);
  }
  Slot& later_slot(std::uint64_t position) const noexcept;
  void publish_arc(std::uint32_t arc) noexcept;

  Header* header_ = nullptr;
  const HostBlocks* blocks_ = nullptr;
  Slot* slots_ = nullptr;  // of arc 0
  std::size_t mask_ = 0;
};

// The log with its seals, and how far this rank has read it. Thread safety: one thread at a time in each process,
// except for ring().
class SealedLog {
 public:
  // capacity: of the readiness table.
  SealedLog(SharedLayout& memory, const HostBlocks& blocks, int capacity) : ring_(memory, blocks, capacity) {}

  struct Seal {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint16_t knobs = 0;
  };
  bool has_next() const noexcept { return ring_.seal(begin_) != 0; }
  // Reads the next seal. REQUIRES: has_next().
  Seal next() noexcept;
  // The end of the last seal that this rank has read.
  std::uint64_t read_to() const noexcept { return begin_; }

  // The end of the filled lines after the last seal; read_to(): there are none.
  std::uint64_t filled_end() const noexcept;
  // Stores the seal after the last one that this rank has read. False: another rank has stored it already.
  // REQUIRES: read_to() < end <= filled_end().
  bool try_seal(std::uint64_t end, std::uint16_t knobs) noexcept;
  // Seals all lines after the last call. REQUIRES: only this thread of the host adds lines and seals.
  void seal_all(std::uint16_t knobs) noexcept;

  LogRing& ring() noexcept { return ring_; }
  const LogRing& ring() const noexcept { return ring_; }

 private:
  LogRing ring_;
  std::uint64_t begin_ = 0;   // where the next part begins that this rank reads
  std::uint64_t sealed_ = 0;  // and the next one of seal_all()
};

}  // namespace xoe::engine
