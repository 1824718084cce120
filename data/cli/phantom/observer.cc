#include "data/cli/phantom/observer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "data/cli/phantom/field.h"
#include "data/image/augment/plan.h"
#include "data/stages/random.h"

namespace xoe::data::synth {
namespace {

constexpr std::size_t kCount = std::size_t{kPlaces} * kPlaces;

std::vector<double> cholesky(const std::vector<double>& matrix) {
  std::vector<double> factor(matrix.size());
  for (std::size_t i = 0; i < kCount; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = matrix[i * kCount + j];
      for (std::size_t k = 0; k < j; ++k) sum -= factor[i * kCount + k] * factor[j * kCount + k];
      factor[i * kCount + j] = i == j ? std::sqrt(std::max(sum, 0.0)) : sum / factor[j * kCount + j];
    }
  return factor;
}

}  // namespace

IdealObserver::IdealObserver(const LesionKind& kind, int size)
    : size_(size),
      top_(kind.row * (size / kRegions)),
      left_(kind.column * (size / kRegions)),
      side_(size / kRegions),
      gram_(kCount * kCount) {
  for (std::size_t place = 0; place < kCount; ++place) {
    std::vector<double> image(static_cast<std::size_t>(size) * static_cast<std::size_t>(size));
    add_lesion(kind, static_cast<int>(place), 1, image, size);
    whiten(image, size);
    std::vector<double>& inner = templates_.emplace_back();
    for (int y = 0; y < side_; ++y) {
      const auto row = image.begin() + (std::ptrdiff_t{top_} + y) * size + left_;
      inner.insert(inner.end(), row, row + side_);
    }
  }
  for (std::size_t i = 0; i < kCount; ++i)
    for (std::size_t j = 0; j < kCount; ++j)
      for (std::size_t k = 0; k < templates_[i].size(); ++k)
        gram_[i * kCount + j] += templates_[i][k] * templates_[j][k];
  factor_ = cholesky(gram_);
}

double IdealObserver::score_of(std::span<const double> products, double contrast) const {
  std::array<double, kCount * kStrengths.size()> logs{};
  std::size_t count = 0;
  for (std::size_t p = 0; p < kCount; ++p)
    for (const double strength : kStrengths) {
      const double c = strength * contrast;
      logs[count++] = c * products[p] - c * c * gram_[p * kCount + p] / 2;
    }
  const double most = *std::max_element(logs.begin(), logs.end());
  double sum = 0;
  for (const double one : logs) sum += std::exp(one - most);
  return most + std::log(sum / static_cast<double>(count));
}

double IdealObserver::score(std::span<const double> whitened, double contrast) const {
  std::array<double, kCount> products{};
  for (std::size_t p = 0; p < kCount; ++p)
    for (int y = 0; y < side_; ++y)
      for (int x = 0; x < side_; ++x)
        products[p] += templates_[p][static_cast<std::size_t>(y * side_ + x)] *
                       whitened[static_cast<std::size_t>(top_ + y) * static_cast<std::size_t>(size_) +
                                static_cast<std::size_t>(left_ + x)];
  return score_of(products, contrast);
}

stats::Auroc IdealObserver::monte_carlo(double contrast, int samples, std::uint64_t seed) const {
  std::vector<double> scores;
  std::vector<std::uint8_t> positive;
  Random random(seed);
  for (int sample = 0; sample < 2 * samples; ++sample) {
    std::array<double, kCount> white{};
    for (double& one : white) one = draw_normal(random);
    const auto place = static_cast<std::size_t>(random.integer(0, static_cast<int>(kCount) - 1));
    const double strength = kStrengths[static_cast<std::size_t>(random.integer(0, int{kStrengths.size()} - 1))];
    const double lesion = sample % 2 == 0 ? contrast * strength : 0;
    std::array<double, kCount> products{};
    for (std::size_t i = 0; i < kCount; ++i) {
      for (std::size_t k = 0; k <= i; ++k) products[i] += factor_[i * kCount + k] * white[k];
      products[i] += lesion * gram_[i * kCount + place];
    }
    scores.push_back(score_of(products, contrast));
    positive.push_back(sample % 2 == 0 ? 1 : 0);
  }
  return stats::auroc(scores, positive).value();  // of numbers, and of both classes
}

double IdealObserver::contrast_for(double auroc, int samples, std::uint64_t seed) const {
  double strongest = 0;
  for (std::size_t p = 0; p < kCount; ++p) strongest = std::max(strongest, gram_[p * kCount + p]);
  double low = 0;
  double high = 10 / std::sqrt(strongest);  // ten deviations
  for (int i = 0; i < 12; ++i) {
    const double middle = (low + high) / 2;
    (monte_carlo(middle, samples, seed).value < auroc ? low : high) = middle;
  }
  return (low + high) / 2;
}

double auroc_with_wrong_labels(double auroc, double wrong, double prevalence) noexcept {
  return 0.5 + (auroc - 0.5) * (1 - wrong / (1 - prevalence));
}

}  // namespace xoe::data::synth
