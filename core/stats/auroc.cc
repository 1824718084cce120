#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/stats/classes.h"
#include "xoe/stats.h"

namespace xoe::stats {
namespace {

// Of `values` in the order `sorted`: the mean of the ranks, from 1, that equal values share.
std::vector<double> midranks(std::span<const double> values, std::span<const std::uint32_t> sorted) {
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < sorted.size();) {
    std::size_t end = first + 1;
    while (end < sorted.size() && values[sorted[end]] == values[sorted[first]]) ++end;
    const double rank = 0.5 * static_cast<double>(first + end + 1);
    for (std::size_t i = first; i < end; ++i) ranks[sorted[i]] = rank;
    first = end;
  }
  return ranks;
}

std::vector<std::uint32_t> sorted_order(std::span<const double> values) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return values[a] < values[b]; });
  return order;
}

// The midranks of the positives among the positives, and of the negatives among the negatives.
std::vector<double> midranks_in_class(std::span<const double> scores, std::span<const std::uint8_t> positive,
                                      std::span<const std::uint32_t> sorted) {
  std::vector<double> ranks(scores.size());
  for (const bool wanted : {false, true}) {
    std::vector<std::uint32_t> members;
    for (const std::uint32_t i : sorted)
      if ((positive[i] != 0) == wanted) members.push_back(i);
    const std::vector<double> of_class = midranks(scores, members);
    for (const std::uint32_t i : members) ranks[i] = of_class[i];
  }
  return ranks;
}

double two_sided_p(double value, double variance) noexcept {
  if (value == 0) return 1;
  return variance == 0 ? 0 : std::erfc(std::abs(value) / std::sqrt(2 * variance));
}

Interval normal_interval(double value, double variance, double level) noexcept {
  const double reach = normal_quantile(0.5 + level / 2) * std::sqrt(variance);
  return {std::max(0.0, value - reach), std::min(1.0, value + reach)};
}

// The column of one label.
struct Column {
  std::vector<double> scores;
  std::vector<std::uint8_t> positive;
};

Column column_of(std::span<const double> scores, std::span<const float> targets, std::size_t labels,
                 std::size_t label) {
  Column column;
  for (std::size_t i = label; i < scores.size(); i += labels) {
    column.scores.push_back(scores[i]);
    column.positive.push_back(targets[i] > 0.5F ? 1 : 0);
  }
  return column;
}

}  // namespace

Status check_classes(std::span<const double> scores, std::span<const std::uint8_t> positive) {
  if (scores.size() != positive.size())
    return failure(Code::kInvalidArgument, "auroc: {} scores and {} labels", scores.size(), positive.size());
  const auto nan = std::find_if(scores.begin(), scores.end(), [](double score) { return std::isnan(score); });
  if (nan != scores.end())
    return failure(Code::kInvalidArgument, "auroc: score {} of {} is NaN", nan - scores.begin(), scores.size());
  const auto negatives = std::count(positive.begin(), positive.end(), std::uint8_t{0});
  const auto positives = std::ssize(positive) - negatives;
  if (positives < 2 || negatives < 2)
    return failure(Code::kInvalidArgument, "auroc: {} positive and {} negative; each class needs two at least",
                   positives, negatives);
  return {};
}

double Auroc::deviation() const noexcept { return std::sqrt(variance); }

Interval Auroc::interval(double level) const noexcept { return normal_interval(value, variance, level); }

Interval LabelAurocs::interval(double level) const noexcept { return normal_interval(mean, variance, level); }

double AurocDifference::p_value() const noexcept { return two_sided_p(value, variance); }

Result<Auroc> auroc(std::span<const double> scores, std::span<const std::uint8_t> positive,
                    std::span<double> influence) {
  XOE_TRY(check_classes(scores, positive));
  if (!influence.empty() && influence.size() != scores.size())
    return failure(Code::kInvalidArgument, "auroc: room for {} influences of {} scores", influence.size(),
                   scores.size());
  const std::vector<std::uint32_t> sorted = sorted_order(scores);
  const std::vector<double> among_all = midranks(scores, sorted);
  const std::vector<double> in_class = midranks_in_class(scores, positive, sorted);
  const auto negatives = std::count(positive.begin(), positive.end(), std::uint8_t{0});
  Auroc result{.positives = std::ssize(positive) - negatives, .negatives = negatives};
  const auto m = static_cast<double>(result.positives);
  const auto n = static_cast<double>(result.negatives);
  // The share of the other class that image i is ordered rightly against: the components V10 and V01 of DeLong.
  const auto share = [&](std::size_t i) {
    const double others_below = among_all[i] - in_class[i];
    return positive[i] != 0 ? others_below / n : 1 - others_below / m;
  };
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (positive[i] != 0) result.value += share(i) / m;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double k = positive[i] != 0 ? m : n;
    const double part = (share(i) - result.value) / std::sqrt(k * (k - 1));
    result.variance += part * part;
    if (!influence.empty()) influence[i] = part;
  }
  return result;
}

Result<AurocDifference> compare_auroc(std::span<const double> a, std::span<const double> b,
                                      std::span<const std::uint8_t> positive) {
  std::vector<double> of_a(a.size());
  std::vector<double> of_b(b.size());
  XOE_ASSIGN(const Auroc first, auroc(a, positive, of_a));
  XOE_ASSIGN(const Auroc second, auroc(b, positive, of_b));
  AurocDifference difference{.value = first.value - second.value};
  for (std::size_t i = 0; i < of_a.size(); ++i) difference.variance += (of_a[i] - of_b[i]) * (of_a[i] - of_b[i]);
  return difference;
}

Result<LabelAurocs> auroc_of_labels(std::span<const double> scores, std::span<const float> targets,
                                    std::size_t labels) {
  if (labels == 0 || scores.size() != targets.size() || scores.size() % labels != 0)
    return failure(Code::kInvalidArgument, "auroc: {} scores and {} targets of {} labels", scores.size(),
                   targets.size(), labels);
  const auto nan = std::find_if(scores.begin(), scores.end(), [](double score) { return std::isnan(score); });
  if (nan != scores.end()) {
    const auto at = static_cast<std::size_t>(nan - scores.begin());
    return failure(Code::kInvalidArgument, "auroc: the score of image {} for label {} is NaN", at / labels,
                   at % labels);
  }
  LabelAurocs result;
  std::vector<double> sum(scores.size() / labels);  // of the influences
  for (std::size_t label = 0; label < labels; ++label) {
    const Column column = column_of(scores, targets, labels, label);
    std::vector<double> influence(sum.size());
    result.labels.push_back(auroc(column.scores, column.positive, influence));
    if (!result.labels.back()) continue;
    ++result.counted;
    result.mean += result.labels.back()->value;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += influence[i];
  }
  if (result.counted == 0)
    return failure(Code::kInvalidArgument, "auroc: none of {} labels has two positives and two negatives in {} images",
                   labels, sum.size());
  const auto counted = static_cast<double>(result.counted);
  result.mean /= counted;
  for (const double one : sum) result.variance += one * one / (counted * counted);
  return result;
}

double normal_quantile(double probability) noexcept {
  double low = -40;
  double high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace xoe::stats
