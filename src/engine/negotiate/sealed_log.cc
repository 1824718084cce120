// ReadinessTable, the half that keeps the log: what is complete, sealed, and told by other hosts.
#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "engine/negotiate/table_layout.h"

namespace xoe::engine {
namespace {

constexpr std::uint64_t kEndMask = (std::uint64_t{1} << 36) - 1;

constexpr std::uint64_t pack(std::uint64_t position, const LogLine& line) {
  return (position + 1) << 32 | std::uint64_t{line.generation} << 24 | static_cast<std::uint64_t>(line.kind) << 20 |
         static_cast<std::uint64_t>(line.entry);
}

}  // namespace

void ReadinessTable::push(const Ring& ring, LogLine line) noexcept {
  const std::uint64_t position = ring.tail->fetch_add(1, std::memory_order_acq_rel);
  if (line.kind != LogKind::kAllJoined && ring.tail == log_.tail)
    entry(line.entry).last_end.store(position + 1, std::memory_order_release);
  ring.slots[position & ring_mask_].store(pack(position, line), std::memory_order_release);
}

bool ReadinessTable::filled(const Ring& ring, std::uint64_t position, LogLine& line) const noexcept {
  const std::uint64_t slot = ring.slots[position & ring_mask_].load(std::memory_order_acquire);
  if (static_cast<std::uint32_t>(slot >> 32) != static_cast<std::uint32_t>(position + 1)) return false;
  line = {static_cast<LogKind>(slot >> 20 & 0xf), static_cast<int>(slot & 0xfffff),
          static_cast<std::uint8_t>(slot >> 24 & 0xff)};
  return true;
}

LogLine ReadinessTable::line(std::uint64_t position) const noexcept {
  LogLine line;
  filled(log_, position, line);
  return line;
}

// A seal is round of the ring:12, knobs:16, low bits of the end:36, so that an old one is not taken for a new one.
ReadinessTable::Seal ReadinessTable::seal(std::uint64_t number, std::uint64_t begin) const noexcept {
  const std::uint64_t word = seals_[number & ring_mask_].load(std::memory_order_acquire);
  const std::uint64_t round = (number / (ring_mask_ + 1) + 1) & 0xfff;
  if (word >> 52 != round) return {};
  return {begin + ((word - begin) & kEndMask), static_cast<std::uint16_t>(word >> 36 & 0xffff)};
}

bool ReadinessTable::try_seal(std::uint64_t number, std::uint64_t begin, std::uint16_t with_knobs) noexcept {
  std::uint64_t end = begin;
  LogLine line;
  while (filled(log_, end, line)) ++end;
  if (end == begin) return false;
  // A rank that has joined takes part in little, and could fall behind by more than the rings hold.
  if (end - all_completed_ > ring_mask_ / 2) {
    all_completed_ = everywhere_completed();
    if (end - all_completed_ > ring_mask_ / 2) return false;
  }
  std::atomic<std::uint64_t>& slot = seals_[number & ring_mask_];
  std::uint64_t old = slot.load(std::memory_order_acquire);
  const std::uint64_t round = (number / (ring_mask_ + 1) + 1) & 0xfff;
  if (old >> 52 == round) return false;
  return slot.compare_exchange_strong(old, round << 52 | std::uint64_t{with_knobs} << 36 | (end & kEndMask),
                                      std::memory_order_acq_rel);
}

LogLine ReadinessTable::install(std::string_view name, std::uint64_t signature, const OpDescriptor& op,
                                std::span<const TensorSize> sizes) {
  const auto place = find(name, [] { return false; });
  if (!place) return {};
  // Nobody arrives here before all have joined: this generation is as good as complete.
  std::atomic<std::uint64_t>& state = entry(place->entry).state;
  const std::uint64_t seen = state.load(std::memory_order_acquire);
  const std::uint32_t g = generation(seen);
  RankSubmission& submitted = submission_at(place->entry, g, 0);
  submitted.signature = signature;
  submitted.op = op;
  submitted.text_length = 0;  // an arrival writes them anew
  std::copy_n(sizes.begin(), std::min(sizes.size(), kListedTensors), submitted.sizes);
  state.store(make_state(version(seen), g + 1, 0), std::memory_order_seq_cst);
  const bool barrier = op.kind == OpKind::kBarrier && op.internal == InternalKind::kNone;
  return {barrier ? LogKind::kBarrier : LogKind::kRun, place->entry, static_cast<std::uint8_t>(g)};
}

void ReadinessTable::set_error(const LogLine& line, std::string_view text) noexcept {
  ErrorText& error = errors_[next_error_++ % kErrorTexts];
  error.sequence.fetch_add(1, std::memory_order_acq_rel);
  error.line.store(static_cast<std::uint32_t>(line.entry) << 8 | line.generation, std::memory_order_release);
  const std::size_t length = std::min(text.size(), std::size(error.text));
  for (std::size_t i = 0; i < length; ++i) error.text[i].store(text[i], std::memory_order_release);
  error.length.store(static_cast<std::uint32_t>(length), std::memory_order_release);
  error.sequence.fetch_add(1, std::memory_order_acq_rel);
}

std::string ReadinessTable::error(const LogLine& line) const {
  for (std::size_t i = 0; i < kErrorTexts; ++i) {
    const ErrorText& error = errors_[i];
    const auto before = error.sequence.load(std::memory_order_acquire);
    if (before == 0 ||
        error.line.load(std::memory_order_acquire) != (static_cast<std::uint32_t>(line.entry) << 8 | line.generation))
      continue;
    std::string text;
    const std::size_t length = error.length.load(std::memory_order_acquire);
    for (std::size_t k = 0; k < length; ++k) text += error.text[k].load(std::memory_order_acquire);
    if (before % 2 == 0 && error.sequence.load(std::memory_order_acquire) == before) return text;
  }
  return {};
}

bool ReadinessTable::somebody_sleeps() const noexcept {
  for (int r = 0; r < ranks_; ++r)
    if (note(r).sleeping.load(std::memory_order_relaxed) != 0) return true;
  return false;
}

bool ReadinessTable::take_ready(std::uint64_t& position, LogLine& line) const noexcept {
  if (!filled(ready_, position, line)) return false;
  ++position;
  return true;
}

void ReadinessTable::append(LogLine line) noexcept { push(log_, line); }

void ReadinessTable::seal_all(std::uint64_t number, std::uint16_t with_knobs) noexcept {
  const std::uint64_t end = log_.tail->load(std::memory_order_acquire);
  const std::uint64_t round = (number / (ring_mask_ + 1) + 1) & 0xfff;
  seals_[number & ring_mask_].store(round << 52 | std::uint64_t{with_knobs} << 36 | (end & kEndMask),
                                    std::memory_order_release);
}

}  // namespace xoe::engine
