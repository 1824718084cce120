// The running statistics of batch norm, which every rank computes on its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "train/networks/models.h"
#include "xoe/communicator.h"

namespace xoe::train {

// Copies, in the model's order.
std::vector<at::Tensor> copy_buffers(const models::ImageModel& model);
void set_buffers(const models::ImageModel& model, const std::vector<at::Tensor>& values);

// Collective. Means over ranks of the floating-point buffers; the others are this rank's. are_same: all ranks have the
// same ones, which are taken as they are.
Result<std::vector<at::Tensor>> buffers_of_ranks(const models::ImageModel& model, bool are_same, Communicator& comm);

}  // namespace xoe::train
