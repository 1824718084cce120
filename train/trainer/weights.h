// The weights of a model by the names that other programs have for them.
#pragma once

#include "train/networks/models.h"
#include "train/trainer/weights_file.h"

namespace xoe::train {

// Copies of parameters and buffers in the order of Python's state_dict(), by their common names; in host memory.
NamedTensors named_weights(const models::ImageModel& model);

// Sets parameters and buffers from a file: see read_tensors(). new_head: but those of model.head(), which the file need
// not have, or may have for another number of classes. `invalid_argument`, before any change: a tensor of the model is
// not there or has another shape, or one of the file is none of the model's. Values are converted to the model's types.
Status load_weights(const std::string& path, models::ImageModel& model, bool new_head);

}  // namespace xoe::train
