// The measured runs of `xoe bench train`, by the trainer itself.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "measure/cli/train_flags.h"
#include "measure/cli/train_result.h"
#include "measure/pages/timeline_figure.h"
#include "xoe/communicator.h"

namespace xoe::bench {

struct MeasuredTraining {
  TrainResult result;
  std::optional<pages::Timeline> timeline = {};  // of the traced run, where flags.out.html asks for a page
};

// Collective, before run_training(): what only the ranks and the data tell, --num-epochs and --variable-update.
// `invalid_argument`, the same on all ranks.
Status settle_flags(TrainFlags& flags, Communicator& comm);

// Collective. The result counts on rank 0, where `print` receives the lines of the runs. Errors: those of
// train::train(); `failed_together` tells that all ranks have the same one.
Result<MeasuredTraining> run_training(const TrainFlags& flags, Communicator& comm,
                                      const std::function<void(std::string_view)>& print, bool& failed_together);

}  // namespace xoe::bench
