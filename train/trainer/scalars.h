// What TensorBoard shows of a run.
#pragma once

#include "train/trainer/event_file.h"
#include "train/trainer/events.h"

namespace xoe::train {

Status write_report(EventFile& file, const Report& report);
Status write_evaluation(EventFile& file, const Evaluation& evaluation);

}  // namespace xoe::train
