// How well scores separate images with a finding from those without: AUROC, its uncertainty, ROC curves.
//
// E. R. DeLong, D. M. DeLong, D. L. Clarke-Pearson, Comparing the Areas under Two or More Correlated Receiver Operating
// Characteristic Curves, Biometrics 44, 1988; computed in O(n log n) as X. Sun and W. Xu, Fast Implementation of
// DeLong's Algorithm, IEEE Signal Processing Letters 21, 2014.
//
// Thread safety: functions without state; any thread at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "xoe/status.h"

namespace xoe::stats {

struct Interval {
  double low = 0;
  double high = 0;
};

// An area under the ROC curve: the probability that a positive scores higher than a negative, where a tie counts half.
struct Auroc {
  double value = 0;
  double variance = 0;  // DeLong's, which takes the images as independent
  std::int64_t positives = 0;
  std::int64_t negatives = 0;

  double deviation() const noexcept;
  // value ± z deviation(), cut off at 0 and 1. REQUIRES: 0 < level < 1.
  Interval interval(double level = 0.95) const noexcept;
};

// positive[i]: whether image i has the finding. influence[i], unless it is empty, receives what image i contributes to
// the deviation: the squares sum up to the variance, and the products of two scores' influences to their covariance.
// `invalid_argument`: spans of different lengths, a score that is NaN, fewer than two positives or two negatives (one
// alone has no variance).
Result<Auroc> auroc(std::span<const double> scores, std::span<const std::uint8_t> positive,
                    std::span<double> influence = {});

// a minus b, of two scores of the same images.
struct AurocDifference {
  double value = 0;
  double variance = 0;

  // Of no difference, two-sided; 1 where value is 0, 0 where the variance alone is.
  double p_value() const noexcept;
};

Result<AurocDifference> compare_auroc(std::span<const double> a, std::span<const double> b,
                                      std::span<const std::uint8_t> positive);

// AUROCs of several labels of the same images.
struct LabelAurocs {
  std::vector<Result<Auroc>> labels;  // an error where a label has too few positives or negatives
  double mean = 0;                    // of the labels without an error
  double variance = 0;                // of the mean, with the labels' covariances
  std::size_t counted = 0;            // labels in the mean

  Interval interval(double level = 0.95) const noexcept;  // of the mean
};

// scores, targets: [images, labels], row by row; a target above 0.5 is a positive. `invalid_argument`: sizes that do
// not fit, a score that is NaN (the message names image and label), no label with both classes.
Result<LabelAurocs> auroc_of_labels(std::span<const double> scores, std::span<const float> targets, std::size_t labels);

// One end of a straight part of the curve.
struct RocPoint {
  double false_positives = 0;  // rate, from 0 to 1
  double true_positives = 0;
};

// From (0, 0) to (1, 1). A curve of more than `most` points is thinned: no point of it is farther than 1/most from what
// is left, in either direction. Errors: as auroc(). REQUIRES: most >= 2.
Result<std::vector<RocPoint>> roc_curve(std::span<const double> scores, std::span<const std::uint8_t> positive,
                                        std::size_t most = 200);

// The x that a standard normal variable stays below with this probability. REQUIRES: 0 < probability < 1.
double normal_quantile(double probability) noexcept;

}  // namespace xoe::stats
