#include "train/trainer/scalars.h"

namespace xoe::train {

std::vector<Scalar> scalars_of(const Report& report) {
  std::vector<Scalar> scalars = {{"loss/train", report.loss},
                                 {"accuracy/train", report.accuracy},
                                 {"rate", report.rate},
                                 {"share/data", report.share.data},
                                 {"share/compute", report.share.compute},
                                 {"share/peers", report.share.peers},
                                 {"share/optimizer", report.share.optimizer}};
  if (report.speed.mean > 0) scalars.push_back({"images_per_second", report.speed.mean});  // else not measured yet
  return scalars;
}

std::vector<Scalar> scalars_of(const Evaluation& evaluation) {
  return {{"loss/held-out", evaluation.loss}, {"accuracy/held-out", evaluation.accuracy}};
}

}  // namespace xoe::train
