#include "core/engine/negotiate/agreement.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace xoe::engine {

std::vector<int> AgreementMembers::local() const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < hosts.size(); ++r)
    if (hosts[r] == host()) ranks.push_back(static_cast<int>(r));
  return ranks;
}

int AgreementMembers::host_rank() const {
  const std::vector<int> ranks = local();
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

Agreement::Agreement(SharedLayout& memory, HostBlocks& blocks, AgreementMembers members, int capacity,
                     std::optional<LogRing> complete)
    : members_(std::move(members)),
      log_(memory, blocks, ReadinessTable::rounded(capacity)),
      table_(memory, blocks, capacity, members_.host_rank(), members_.local(), complete.value_or(log_.ring()),
             log_.ring()),
      knobs_(memory.take<std::atomic<std::uint32_t>>()) {}

std::uint16_t Agreement::knobs() const noexcept {
  return static_cast<std::uint16_t>(knobs_->load(std::memory_order_relaxed));
}

void Agreement::set_knobs(std::uint16_t knobs) noexcept {
  if (members_.rank == 0) knobs_->store(knobs, std::memory_order_relaxed);
}

std::optional<SealedLog::Seal> Agreement::next_sealed() noexcept {
  if (!log_.has_next()) return std::nullopt;
  return log_.next();
}

AgreedLine Agreement::line(std::uint64_t position) const {
  AgreedLine result;
  log_.ring().read(position, result.line);
  if (result.line.kind == LogKind::kAllJoined) {
    result.last_rank = members_.world_ranks[static_cast<std::size_t>(result.line.entry)];
    return result;
  }
  const auto submissions = table_.submissions(result.line);
  for (int r = 0; r < table_.ranks(); ++r) {
    const RankSubmission* const theirs = submissions.of(r);
    if (theirs == nullptr) continue;
    if (result.last_rank < 0) result.agreed = theirs;
    if (r == table_.rank()) result.submitted_here = true;
    if (result.last_rank >= 0 && theirs->arrived_ns <= result.last_ns) continue;
    result.last_rank = world_rank(r);
    result.last_ns = theirs->arrived_ns;
  }
  if (result.agreed == nullptr) result.agreed = &table_.agreed(result.line);
  return result;
}

void Agreement::completed(std::uint64_t position) noexcept {
  own_status().completed.store(position, std::memory_order_release);
}

std::vector<MissingRank> Agreement::missing_on_host(int entry, std::uint8_t generation) const {
  std::vector<MissingRank> missing;
  for (const int r : table_.missing(entry, generation)) {
    const int last = status(r).last_entry.load(std::memory_order_acquire);
    missing.push_back({world_rank(r), last == 0 ? "has submitted nothing there yet"
                                                : fmt::format("last submitted '{}' there", table_.name(last - 1))});
  }
  return missing;
}

std::string Agreement::describe_mismatch(const LogLine& line) const {
  if (line.kind == LogKind::kJoinForbids) return "a rank has joined, and this operation needs data from it";
  std::vector<std::pair<std::string_view, std::vector<int>>> values;
  const auto submissions = table_.submissions(line);
  for (int r = 0; r < table_.ranks(); ++r) {
    const RankSubmission* theirs = submissions.of(r);
    if (theirs == nullptr) continue;
    const auto same =
        std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == theirs->description(); });
    if (same == values.end())
      values.push_back({theirs->description(), {world_rank(r)}});
    else
      same->second.push_back(world_rank(r));
  }
  std::string text;
  for (const auto& [value, ranks] : values)
    text += fmt::format("{}rank{} {} submitted {}", text.empty() ? "" : "; ", ranks.size() == 1 ? "" : "s",
                        fmt::join(ranks, ", "), value);
  return text;
}

}  // namespace xoe::engine
