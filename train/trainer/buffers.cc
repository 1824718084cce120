#include "train/trainer/buffers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include "core/base/error.h"
#include "xoe/torch/tensors.h"

namespace xoe::train {

std::vector<at::Tensor> copy_buffers(const models::ImageModel& model) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& buffer : model.buffers()) copies.push_back(buffer.detach().clone());
  return copies;
}

void set_buffers(const models::ImageModel& model, const std::vector<at::Tensor>& values) {
  const at::NoGradGuard no_grad;
  const auto buffers = model.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(values.at(i));
}

Result<std::vector<at::Tensor>> buffers_of_ranks(const models::ImageModel& model, bool are_same, Communicator& comm) {
  std::vector<at::Tensor> averaged = copy_buffers(model);
  std::vector<at::Tensor> flat;
  for (const at::Tensor& buffer : averaged) {
    if (buffer.is_floating_point()) flat.push_back(buffer.reshape({-1}));
  }
  if (flat.empty() || are_same || comm.size() == 1) return averaged;
  const at::Tensor joined = at::cat(flat).cpu();
  XOE_TRY(xoe::torch::allreduce(joined, comm, ReduceOp::kAverage, {.name = "buffers"}));
  std::int64_t offset = 0;
  for (at::Tensor& buffer : averaged) {
    if (!buffer.is_floating_point()) continue;
    buffer.copy_(joined.slice(0, offset, offset + buffer.numel()).view_as(buffer));
    offset += buffer.numel();
  }
  return averaged;
}

}  // namespace xoe::train
