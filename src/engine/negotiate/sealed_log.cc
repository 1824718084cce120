#include "engine/negotiate/sealed_log.h"

#include <bit>

namespace xoe::engine {
namespace {

// A seal is round of the ring:12, knobs:16, low bits of the end:36.
constexpr std::uint64_t kEndMask = (std::uint64_t{1} << 36) - 1;

// A line is low bits of position + 1:32, generation:8, kind:4, entry:20.
constexpr std::uint64_t pack_line(std::uint64_t position, const LogLine& line) {
  return (position + 1) << 32 | std::uint64_t{line.generation} << 24 | static_cast<std::uint64_t>(line.kind) << 20 |
         static_cast<std::uint64_t>(line.entry);
}

}  // namespace

LogRing::LogRing(SharedLayout& memory, int capacity)
    : tail_(memory.take<std::atomic<std::uint64_t>>()),
      mask_(std::bit_ceil(static_cast<std::size_t>(capacity) * 2 + 64) - 1) {
  slots_ = memory.take<std::atomic<std::uint64_t>>(size());
}

void LogRing::fill(std::uint64_t position, LogLine line) noexcept {
  slots_[position & mask_].store(pack_line(position, line), std::memory_order_release);
}

bool LogRing::read(std::uint64_t position, LogLine& line) const noexcept {
  const std::uint64_t word = slots_[position & mask_].load(std::memory_order_acquire);
  if (static_cast<std::uint32_t>(word >> 32) != static_cast<std::uint32_t>(position + 1)) return false;
  line = {static_cast<LogKind>(word >> 20 & 0xf), static_cast<int>(word & 0xfffff),
          static_cast<std::uint8_t>(word >> 24 & 0xff)};
  return true;
}

SealedLog::SealedLog(SharedLayout& memory, int capacity)
    : ring_(memory, capacity), seals_(memory.take<std::atomic<std::uint64_t>>(ring_.size())) {}

std::uint64_t SealedLog::pack_seal(std::uint64_t number, std::uint64_t end, std::uint16_t knobs) const noexcept {
  return round(number) << 52 | std::uint64_t{knobs} << 36 | (end & kEndMask);
}

bool SealedLog::has_next() const noexcept {
  return slot(number_).load(std::memory_order_acquire) >> 52 == round(number_);
}

SealedLog::Seal SealedLog::next() noexcept {
  const std::uint64_t word = slot(number_++).load(std::memory_order_acquire);
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
  std::uint64_t old = slot(number_).load(std::memory_order_acquire);
  if (old >> 52 == round(number_)) return false;
  return slot(number_).compare_exchange_strong(old, pack_seal(number_, end, knobs), std::memory_order_acq_rel);
}

void SealedLog::seal_all(std::uint64_t number, std::uint16_t knobs) noexcept {
  slot(number).store(pack_seal(number, ring_.tail(), knobs), std::memory_order_release);
}

}  // namespace xoe::engine
