// The ideal observer of a finding: no score of one image at a time separates those with the lesion from those
// without better than the likelihood ratio does (Neyman and Pearson).
//
// Whitening makes the noise independent standard normal numbers, and lesions stay inside of their region. So other
// findings change nothing in what tells of this one, and the ratio is exact: the mean, over places p and strengths u,
// of exp(u c m_p - u² c² |t_p|² / 2), where t_p is the whitened form at p, c the contrast, and m_p the product of t_p
// with the whitened image.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/cli/phantom/lesion.h"
#include "xoe/stats.h"

namespace xoe::data::synth {

class IdealObserver {
 public:
  // Of a kind in images of this size.
  IdealObserver(const LesionKind& kind, int size);

  // The logarithm of the likelihood ratio of a whitened image.
  double score(std::span<const double> whitened, double contrast) const;
  // The AUROC of the scores of `samples` images without and as many with the lesion, drawn from the distribution of
  // (m_p) itself, with its Monte Carlo error as variance.
  stats::Auroc monte_carlo(double contrast, int samples, std::uint64_t seed) const;
  // The contrast for which `samples` draws have this AUROC. REQUIRES: 0.5 < auroc < 1.
  double contrast_for(double auroc, int samples, std::uint64_t seed) const;

 private:
  double score_of(std::span<const double> products, double contrast) const;

  int size_;
  int top_;
  int left_;
  int side_;
  std::vector<std::vector<double>> templates_;  // t_p, within the region
  std::vector<double> gram_;                    // of the templates with each other
  std::vector<double> factor_;                  // Cholesky's: lower triangle, whose product with its transpose is gram_
};

// The AUROC against recorded labels of which a share `wrong` of the positives, and as many negatives, are wrong:
// 1/2 + (A - 1/2) (1 - wrong / (1 - prevalence)). Among recorded positives 1 - wrong have the lesion, among recorded
// negatives wrong * prevalence / (1 - prevalence), and the ratio stays the best score.
double auroc_with_wrong_labels(double auroc, double wrong, double prevalence) noexcept;

}  // namespace xoe::data::synth
