// A checkpoint's weights for programs without Xoe.
#pragma once

#include <cstdint>
#include <string>

#include "xoe/status.h"

namespace xoe::train {

struct Exported {
  std::string checkpoint;  // that was read
  std::string model;
  std::int64_t step = 0;
  std::int64_t tensors = 0;
  bool averaged = false;  // the weights are the moving averages of the run
};

// Writes the parameters (their moving averages, where it has some), and the buffers averaged over ranks, of the
// checkpoint that `run` names (find_checkpoint) into a new file, in the format that check_export_name() says. The file
// appears whole or not at all. Names are those of ImageModel::common_name(). `invalid_argument`: no such checkpoint, or
// the file exists; `data_loss`: the checkpoint is damaged.
Result<Exported> export_weights(const std::string& run, const std::string& file);

}  // namespace xoe::train
