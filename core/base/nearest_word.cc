#include "core/base/nearest_word.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace xoe {
namespace {

constexpr std::size_t kShortestBeginning = 3;

// Levenshtein's distance, where two neighbours that changed places are one edit (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::vector<std::size_t> next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1), row[j] + 1, next[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row.back();
}

}  // namespace

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view nearest;
  // Half of a short word is another word.
  std::size_t distance = std::clamp<std::size_t>(word.size() / 3, 1, 4) + 1;
  for (const std::string_view candidate : candidates) {
    const auto one = edit_distance(word, candidate);
    if (one < distance && one < candidate.size()) {
      distance = one;
      nearest = candidate;
    }
  }
  if (!nearest.empty()) return nearest;
  const auto letters = std::min(word.find_first_not_of('-'), word.size());
  if (word.size() - letters < kShortestBeginning) return {};
  const auto begun = std::ranges::find_if(candidates, [word](std::string_view one) { return one.starts_with(word); });
  return begun == candidates.end() ? std::string_view() : *begun;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates,
                         std::string_view otherwise) {
  const auto meant = nearest_word(word, candidates);
  return meant.empty() ? std::string(otherwise) : fmt::format("; did you mean {}?", meant);
}

}  // namespace xoe
