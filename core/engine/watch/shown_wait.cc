#include "core/engine/watch/shown_wait.h"

#include <array>
#include <bit>
#include <iterator>
#include <utility>

namespace xoe::engine {
namespace {

constexpr std::size_t kWordBits = 64;

void write_ranks(RankStatus& status, std::span<const MissingRank> missing) {
  std::array<std::uint64_t, kBlockedRanks / kWordBits> words{};
  for (const MissingRank& one : missing)
    if (const auto rank = static_cast<std::size_t>(one.rank); rank < kBlockedRanks)
      words[rank / kWordBits] |= std::uint64_t{1} << rank % kWordBits;
  for (std::size_t w = 0; w < words.size(); ++w) status.blocked_ranks[w].store(words[w], std::memory_order_release);
}

}  // namespace

void show_wait(RankStatus& status, ProcessSetId set, std::string_view name, std::span<const MissingRank> missing) {
  status.sequence.fetch_add(1, std::memory_order_acq_rel);
  write_ranks(status, missing);
  status.blocked_set.store(set, std::memory_order_release);
  for (std::size_t i = 0; i < kBlockedNameBytes; ++i)
    status.blocked_name[i].store(i < name.size() && i + 1 < kBlockedNameBytes ? name[i] : '\0',
                                 std::memory_order_release);
  status.sequence.fetch_add(1, std::memory_order_acq_rel);
}

void show_no_wait(RankStatus& status) {
  status.sequence.fetch_add(1, std::memory_order_acq_rel);
  write_ranks(status, {});
  status.sequence.fetch_add(1, std::memory_order_acq_rel);
}

BlockedWait read_wait(const RankStatus& status, int rank) {
  BlockedWait wait{.rank = rank, .name = {}, .set = kWorldSet, .missing = {}};
  const auto before = status.sequence.load(std::memory_order_acquire);
  std::vector<int> missing;
  for (std::size_t w = 0; w < std::size(status.blocked_ranks); ++w)
    for (auto bits = status.blocked_ranks[w].load(std::memory_order_acquire); bits != 0; bits &= bits - 1)
      missing.push_back(static_cast<int>(w * kWordBits) + std::countr_zero(bits));
  wait.set = status.blocked_set.load(std::memory_order_acquire);
  for (const auto& c : status.blocked_name)
    if (const char letter = c.load(std::memory_order_acquire); letter != '\0')
      wait.name += letter;
    else
      break;
  if (before % 2 != 0 || status.sequence.load(std::memory_order_acquire) != before) return wait;
  wait.missing = std::move(missing);
  wait.shown = before;
  return wait;
}

}  // namespace xoe::engine
