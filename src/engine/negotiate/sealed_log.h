// The log of a process set on one host: what its ranks run, in one order, cut by seals into parts that all ranks batch
// alike. It lies in memory that the ranks share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/negotiate/shared_layout.h"

namespace xoe::engine {

enum class LogKind : std::uint8_t { kRun, kBarrier, kMismatch, kJoinForbids, kAllJoined };

// A line of the log. For kAllJoined `entry` is the rank of the set that joined last.
struct LogLine {
  LogKind kind = LogKind::kRun;
  int entry = 0;                // of the readiness table
  std::uint8_t generation = 0;  // of the entry, its low bits
};

inline constexpr int kMaxLogEntries = 1 << 19;  // a line has 20 bits for its entry

// INVARIANTS of the ring and of the log
//
// 1. A position belongs to the rank that reserved it by adding to the tail. That rank fills it once, with one store
//    (release) of one word that holds the position and the line. A slot that holds another position is not filled yet.
//    So a reader needs no more than one load (acquire) of the slot.
// 2. Positions may be filled out of order. A seal ends at or before the first position that is not filled.
// 3. A seal is one word. Only the first rank that stores seal n decides where it ends (compare-exchange), and it never
//    moves: all ranks run the same parts of the log with the same knobs. The word holds the ring's round, so that an
//    old seal in the same slot is not taken for a new one.
// 4. Slots are reused. A line of an entry of the readiness table is unsealed at most once, so the ring, twice as long
// as
//    the table, has room for all unsealed lines; a rank seals nothing more than half a ring past the position that all
//    ranks have completed.

// Lines that any rank adds and any rank reads.
class LogRing {
 public:
  LogRing() = default;
  LogRing(SharedLayout& memory, int capacity);

  // append() in two steps: what must be visible before the line is, the caller stores in between.
  std::uint64_t reserve() noexcept { return tail_->fetch_add(1, std::memory_order_acq_rel); }
  void fill(std::uint64_t position, LogLine line) noexcept;
  // False: the position is not filled yet.
  bool read(std::uint64_t position, LogLine& line) const noexcept;

  std::uint64_t tail() const noexcept { return tail_->load(std::memory_order_acquire); }
  std::size_t size() const noexcept { return mask_ + 1; }

 private:
  std::atomic<std::uint64_t>* tail_ = nullptr;
  std::atomic<std::uint64_t>* slots_ = nullptr;
  std::size_t mask_ = 0;
};

// The log with its seals, and how far this rank has read it. Thread safety: one thread at a time in each process,
// except for ring().
class SealedLog {
 public:
  // capacity: of the readiness table.
  SealedLog(SharedLayout& memory, int capacity);

  struct Seal {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint16_t knobs = 0;
  };
  bool has_next() const noexcept;
  // Reads the next seal. REQUIRES: has_next().
  Seal next() noexcept;
  // The end of the last seal that this rank has read.
  std::uint64_t read_to() const noexcept { return begin_; }

  // The end of the filled lines after the last seal; read_to(): there are none.
  std::uint64_t filled_end() const noexcept;
  // Stores the seal after the last one that this rank has read. False: another rank has stored it already.
  bool try_seal(std::uint64_t end, std::uint16_t knobs) noexcept;
  // Stores the seal with this number at the tail. REQUIRES: only one thread of the host appends and seals.
  void seal_all(std::uint64_t number, std::uint16_t knobs) noexcept;

  LogRing& ring() noexcept { return ring_; }
  const LogRing& ring() const noexcept { return ring_; }

 private:
  std::uint64_t round(std::uint64_t number) const noexcept { return (number / ring_.size() + 1) & 0xfff; }
  std::atomic<std::uint64_t>& slot(std::uint64_t number) const noexcept { return seals_[number & (ring_.size() - 1)]; }
  std::uint64_t pack_seal(std::uint64_t number, std::uint64_t end, std::uint16_t knobs) const noexcept;

  LogRing ring_;
  std::atomic<std::uint64_t>* seals_;
  std::uint64_t number_ = 0;  // of the next seal
  std::uint64_t begin_ = 0;   // where it begins
};

}  // namespace xoe::engine
