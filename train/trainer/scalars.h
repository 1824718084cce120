// The numbers of a run that TensorBoard and MLflow show.
#pragma once

#include <vector>

#include "train/trainer/event_file.h"
#include "train/trainer/events.h"

namespace xoe::train {

std::vector<Scalar> scalars_of(const Report& report);
std::vector<Scalar> scalars_of(const Evaluation& evaluation);

}  // namespace xoe::train
