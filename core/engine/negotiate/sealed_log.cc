#include "core/engine/negotiate/sealed_log.h"

#include <bit>

namespace xoe::engine {
namespace {

// A seal's word: set:1, knobs:16, the low 36 bits of its end.
constexpr std::uint64_t kSealed = std::uint64_t{1} << 63;
constexpr std::uint64_t kEndMask = (std::uint64_t{1} << 36) - 1;

std::uint64_t pack_seal(std::uint64_t end, std::uint16_t knobs) {
  return kSealed | std::uint64_t{knobs} << 36 | (end & kEndMask);
}

}  // namespace

// --- the ring ---

LogRing::LogRing(SharedLayout& memory, const HostBlocks& blocks, int capacity)
    : header_(memory.take<Header>()),
      blocks_(&blocks),
      mask_(std::bit_ceil(static_cast<std::size_t>(capacity) * 2 + 64) - 1) {
  slots_ = memory.take<Slot>(mask_ + 1);
}

std::uint64_t LogRing::reserve() noexcept {
  const std::uint64_t tail = header_->tail.fetch_add(1, std::memory_order_acq_rel);
  const auto arc = static_cast<std::uint32_t>(tail >> kArcShift);
  if (arc > header_->newest.load(std::memory_order_relaxed)) [[unlikely]]
    publish_arc(arc);
  return tail & kPositionBits;
}

void LogRing::fill(std::uint64_t position, LogLine line) noexcept {
  Slot& to = slot(position);
  to.seal.store(0, std::memory_order_relaxed);
  to.line.store(position_bits(position) | std::uint64_t{line.generation} << 28 |
                    (static_cast<std::uint64_t>(line.kind) + 1) << 24 | static_cast<std::uint64_t>(line.entry),
                std::memory_order_release);
}

bool LogRing::store_seal(std::uint64_t position, std::uint64_t word) noexcept {
  std::uint64_t none = 0;
  return slot(position).seal.compare_exchange_strong(none, word, std::memory_order_acq_rel);
}

LogRing::Slot& LogRing::later_slot(std::uint64_t position) const noexcept {
  std::uint32_t arc = header_->newest.load(std::memory_order_acquire);
  while (arc != 0 && position < header_->begins[arc]) --arc;
  if (arc == 0) return slots_[position & mask_];
  return reinterpret_cast<Slot*>(blocks_->block_address(header_->blocks[arc]))[position & (arc_size(arc) - 1)];
}

void LogRing::start_arc(std::uint32_t arc, std::uint64_t block) noexcept {
  header_->blocks[arc] = block;
  std::uint64_t tail = header_->tail.load(std::memory_order_acquire);
  std::uint64_t with_arc = 0;
  do {
    header_->begins[arc] = tail & kPositionBits;
    with_arc = std::uint64_t{arc} << kArcShift | (tail & kPositionBits);
  } while (!header_->tail.compare_exchange_weak(tail, with_arc, std::memory_order_acq_rel));
  publish_arc(arc);
}

void LogRing::publish_arc(std::uint32_t arc) noexcept {
  std::uint32_t newest = header_->newest.load(std::memory_order_acquire);
  while (newest < arc && !header_->newest.compare_exchange_weak(newest, arc, std::memory_order_acq_rel)) {
  }
}

// --- the log ---

SealedLog::Seal SealedLog::next() noexcept {
  const std::uint64_t word = ring_.seal(begin_);
  const Seal seal{begin_, begin_ + ((word - begin_) & kEndMask), static_cast<std::uint16_t>(word >> 36 & 0xffff)};
  begin_ = seal.end;
  return seal;
}

std::uint64_t SealedLog::filled_end() const noexcept {
  std::uint64_t end = begin_;
  LogLine line;
  while (ring_.read(end, line)) ++end;
  return end;
}

bool SealedLog::try_seal(std::uint64_t end, std::uint16_t knobs) noexcept {
  return ring_.store_seal(begin_, pack_seal(end, knobs));
}

void SealedLog::seal_all(std::uint16_t knobs) noexcept {
  const std::uint64_t end = ring_.tail();
  if (end == sealed_) return;
  ring_.store_seal(sealed_, pack_seal(end, knobs));
  sealed_ = end;
}

}  // namespace xoe::engine
