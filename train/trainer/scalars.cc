#include "train/trainer/scalars.h"

#include <array>
#include <vector>

namespace xoe::train {

Status write_report(EventFile& file, const Report& report) {
  std::vector<Scalar> scalars = {{"loss/train", report.loss},
                                 {"accuracy/train", report.accuracy},
                                 {"rate", report.rate},
                                 {"share/data", report.share.data},
                                 {"share/compute", report.share.compute},
                                 {"share/peers", report.share.peers},
                                 {"share/optimizer", report.share.optimizer}};
  if (report.speed.mean > 0) scalars.push_back({"images_per_second", report.speed.mean});  // else not measured yet
  return file.write(report.step, scalars);
}

Status write_evaluation(EventFile& file, const Evaluation& evaluation) {
  const std::array<Scalar, 2> scalars = {
      {{"loss/held-out", evaluation.loss}, {"accuracy/held-out", evaluation.accuracy}}};
  return file.write(evaluation.step, scalars);
}

}  // namespace xoe::train
