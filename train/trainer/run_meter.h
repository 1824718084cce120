// Measures a training run: loss and accuracy, speed, and where the time goes.
#pragma once

#include <cstdint>

#include "train/trainer/events.h"
#include "train/trainer/speed.h"
#include "xoe/communicator.h"

namespace xoe::train {

// Sums over ranks of one step, or of several.
struct StepSums {
  double loss = 0;  // weighted by images
  double correct = 0;
  double images = 0;
  StepSums& operator+=(const StepSums& other) noexcept;
};

class RunMeter {
 public:
  // A step, with its sums over ranks and this rank's times.
  void add(const StepSums& sums, const StepTimes& times) {
    sums_ += sums;
    times_ += times;
    ++steps_;
  }
  // A step that counts for the speed.
  void add_speed(double images, double seconds) { speed_.add(images, seconds); }

  // Collective: loss, accuracy and shares of time since the last report, and the speed so far. The other fields of the
  // report are the caller's.
  Result<Report> report(Communicator& comm);

  SpeedStats speed() const { return speed_.stats(); }
  StepTimes share() const { return shares(all_times_); }  // of all reports, mean of all ranks

 private:
  StepSums sums_;  // since the last report
  std::int64_t steps_ = 0;
  StepTimes times_;
  StepTimes all_times_;
  SpeedMeter speed_;
};

}  // namespace xoe::train
