#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/stats/classes.h"
#include "xoe/stats.h"

namespace xoe::stats {

Result<std::vector<RocPoint>> roc_curve(std::span<const double> scores, std::span<const std::uint8_t> positive,
                                        std::size_t most) {
  XOE_TRY(check_classes(scores, positive));
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  const auto negatives = static_cast<double>(std::count(positive.begin(), positive.end(), std::uint8_t{0}));
  const double positives = static_cast<double>(positive.size()) - negatives;
  const bool keep_all = scores.size() <= most;
  const double reach = 1 / static_cast<double>(most);
  std::vector<RocPoint> points = {{}};
  RocPoint last;
  double found = 0;
  double alarms = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    (positive[order[i]] != 0 ? found : alarms) += 1;
    if (i + 1 < order.size() && scores[order[i + 1]] == scores[order[i]]) continue;  // one threshold
    const RocPoint here{alarms / negatives, found / positives};
    const bool far = here.false_positives - points.back().false_positives > reach ||
                     here.true_positives - points.back().true_positives > reach;
    // The point before a step that is too long stays, so that the step itself starts where it does.
    if ((far || keep_all) &&
        (last.false_positives != points.back().false_positives || last.true_positives != points.back().true_positives))
      points.push_back(last);
    last = here;
  }
  if (points.back().false_positives < 1 || points.back().true_positives < 1) points.push_back({1, 1});
  return points;
}

}  // namespace xoe::stats
