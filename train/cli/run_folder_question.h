// What `xoe train` asks where its --run-dir holds a run already.
#pragma once

#include "train/trainer/options.h"

namespace xoe {

// Where a person sits at a terminal, with the process in the foreground, and the process is no rank of a larger job:
// offers another folder, and takes it for what was to lie in the first one. The trainer refuses a folder that is kept.
void ask_for_run_folder(train::TrainOptions& options);

}  // namespace xoe
