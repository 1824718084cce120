#include "core/engine/watch/stall.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/base/text.h"

namespace xoe::engine {
namespace {

constexpr std::size_t kMaxNameBytes = 120;  // of a name, of a rank's last action
constexpr std::size_t kMaxGroups = 6;       // of missing ranks
constexpr std::size_t kMaxInCycle = 8;      // waits of a cycle that are printed

// A name of the user's on one line, cut so that lines stay readable.
std::string shortened(std::string_view text) {
  std::string out;
  for (const char c : text) {
    // Not in the middle of a UTF-8 character.
    if (out.size() >= kMaxNameBytes && (static_cast<unsigned char>(c) & 0xC0) != 0x80) return out + "...";
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
    if (out.size() > kMaxNameBytes + 8) return out + "...";  // not UTF-8
  }
  return out;
}

std::string tensor_text(std::string_view name, ProcessSetId set) {
  return fmt::format("'{}' (process set {})", shortened(name), set);
}

// Groups missing ranks by their last action.
std::string missing_text(const std::vector<MissingRank>& missing) {
  std::map<std::string, std::vector<int>> by_last;
  for (const auto& one : missing) by_last[shortened(one.last)].push_back(one.rank);
  std::vector<std::pair<int, std::string>> groups;
  for (const auto& [last, ranks] : by_last) {
    const int first = *std::ranges::min_element(ranks);
    groups.emplace_back(first, rank_list(ranks) + (last.empty() ? "" : " (" + last + ")"));
  }
  std::ranges::sort(groups);
  std::string out;
  for (std::size_t i = 0; i < groups.size() && i < kMaxGroups; ++i) out += (i == 0 ? "" : ", ") + groups[i].second;
  if (groups.size() > kMaxGroups) out += fmt::format(", ... ({} ranks in all)", missing.size());
  return groups.empty() ? "ranks of other hosts" : out;
}

using Edges =
    std::map<int, std::map<int, const BlockedWait*>>;  // from a rank to the ranks that it needs, with the wait

Edges edges_of(const std::vector<BlockedWait>& waits) {
  std::set<int> blocked;
  for (const BlockedWait& wait : waits) blocked.insert(wait.rank);
  Edges edges;
  for (const BlockedWait& wait : waits)
    for (const int rank : wait.missing)
      if (rank != wait.rank && blocked.contains(rank)) edges[wait.rank].try_emplace(rank, &wait);
  return edges;
}

// The shortest cycle through `start`.
std::optional<WaitCycle> shortest_cycle(const Edges& edges, int start) {
  std::map<int, int> before;
  std::queue<int> next({start});
  while (!next.empty() && !before.contains(start)) {
    const int rank = next.front();
    next.pop();
    const auto out = edges.find(rank);
    if (out == edges.end()) continue;
    for (const auto& [needed, wait] : out->second)
      if (before.try_emplace(needed, rank).second) next.push(needed);
  }
  if (!before.contains(start)) return std::nullopt;
  WaitCycle cycle;
  int rank = start;
  do {
    const int from = before.at(rank);
    cycle.push_back(*edges.at(from).at(rank));
    rank = from;
  } while (rank != start);
  std::ranges::reverse(cycle);
  return cycle;
}

// All ranks that can be reached from `start`.
std::set<int> reach(const Edges& edges, int start) {
  std::set<int> seen;
  std::vector<int> open = {start};
  while (!open.empty()) {
    const int rank = open.back();
    open.pop_back();
    const auto out = edges.find(rank);
    if (out == edges.end()) continue;
    for (const auto& [needed, wait] : out->second)
      if (seen.insert(needed).second) open.push_back(needed);
  }
  return seen;
}

}  // namespace

std::string rank_list(std::vector<int> ranks, std::size_t ranges) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.empty()) return "no rank";
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t printed = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (printed == ranges) return out + fmt::format(", ... ({} in all)", ranks.size());
    if (printed++ > 0) out += ", ";
    // "0, 1" reads better than "0-1".
    if (end - i == 2) end = i + 1;
    out += end - i == 1 ? std::to_string(ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[end - 1]);
    i = end;
  }
  return out;
}

std::string stall_line(const PendingTensor& tensor) {
  return fmt::format("{} has waited for {}: submitted by {}; missing on {}", tensor_text(tensor.name, tensor.set),
                     human_seconds(tensor.age), rank_list(tensor.submitted), missing_text(tensor.missing));
}

std::vector<std::string> stall_report(std::vector<PendingTensor> tensors, std::size_t limit) {
  std::ranges::stable_sort(tensors, std::greater(), &PendingTensor::age);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < tensors.size() && i < limit; ++i) lines.push_back(stall_line(tensors[i]));
  if (tensors.size() > limit)
    lines.push_back(fmt::format("{} more tensors wait for ranks that have not submitted them", tensors.size() - limit));
  return lines;
}

std::vector<WaitCycle> find_wait_cycles(const std::vector<BlockedWait>& waits) {
  const Edges edges = edges_of(waits);
  std::vector<WaitCycle> cycles;
  std::set<int> told;
  for (const auto& [rank, out] : edges) {
    if (told.contains(rank)) continue;
    const std::set<int> reached = reach(edges, rank);
    if (!reached.contains(rank)) continue;
    // One cycle is reported for ranks that all reach each other.
    for (const int other : reached)
      if (reach(edges, other).contains(rank)) told.insert(other);
    if (auto cycle = shortest_cycle(edges, rank)) cycles.push_back(std::move(*cycle));
  }
  return cycles;
}

std::string deadlock_line(const WaitCycle& cycle) {
  std::string out = "order deadlock: ";
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (i > 0) out += "; ";
    if (i == kMaxInCycle - 1 && cycle.size() > kMaxInCycle) {
      return out + fmt::format("and so on over {} more ranks, back to rank {}", cycle.size() - i, cycle.front().rank);
    }
    const BlockedWait& wait = cycle[i];
    out += fmt::format("rank {} waits for {}, which rank {} has not submitted", wait.rank,
                       tensor_text(wait.name, wait.set), cycle[(i + 1) % cycle.size()].rank);
  }
  return out;
}

std::string DeadlockWatch::look(const std::vector<BlockedWait>& waits, int rank) {
  WaitCycle found;
  for (WaitCycle& cycle : find_wait_cycles(waits))
    if (cycle.size() > 1 && std::ranges::count(cycle, rank, &BlockedWait::rank) > 0) found = std::move(cycle);
  const std::string line = found.empty() ? "" : deadlock_line(found);
  if (line.empty() || line != line_ || found.size() != first_.size()) {
    line_ = line;
    first_ = std::move(found);
    return {};
  }
  // A rank that has not run since its wait ended shows it still; one that waits shows it again with every look.
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i].shown == first_[i].shown) return {};
  return line == std::exchange(reported_, line) ? "" : line;
}

}  // namespace xoe::engine
