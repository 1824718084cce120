#include "train/trainer/run_meter.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace xoe::train {

StepSums& StepSums::operator+=(const StepSums& other) noexcept {
  loss += other.loss;
  correct += other.correct;
  images += other.images;
  return *this;
}

Result<Report> RunMeter::report(Communicator& comm) {
  const std::array<double, 4> mine = {times_.data, times_.compute, times_.peers, times_.optimizer};
  std::vector<double> all(mine.size() * static_cast<std::size_t>(comm.size()));
  XOE_TRY(comm.allgather(ConstTensor(mine.data(), mine.size()), Tensor(all.data(), all.size())));

  const StepSums sums = std::exchange(sums_, {});
  times_ = {};
  Report report;
  report.loss = sums.loss / sums.images;
  report.accuracy = sums.correct / sums.images;
  report.speed = speed_.stats();
  report.ranks = comm.size();
  report.images = sums.images / static_cast<double>(std::max<std::int64_t>(std::exchange(steps_, 0), 1));
  StepTimes mean;
  for (std::size_t i = 0; i < all.size(); i += mine.size()) {
    const StepTimes times = {.data = all[i], .compute = all[i + 1], .peers = all[i + 2], .optimizer = all[i + 3]};
    report.rank_shares.push_back(shares(times));
    mean += times;
  }
  report.share = shares(mean);
  all_times_ += mean;
  return report;
}

}  // namespace xoe::train
