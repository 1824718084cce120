#include "xoe/torch/elastic.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <sstream>

#include "core/base/error.h"
#include "xoe/torch/broadcast.h"

namespace xoe::torch {
namespace {

std::vector<at::Tensor> tensors_of(const ::torch::nn::Module& model) {
  std::vector<at::Tensor> tensors = model.parameters();
  for (const at::Tensor& buffer : model.buffers()) tensors.push_back(buffer);
  return tensors;
}

}  // namespace

Status ModelState::save() {
  const at::NoGradGuard no_grad;
  tensors_.clear();
  for (const at::Tensor& tensor : tensors_of(model_)) tensors_.push_back(tensor.detach().clone());
  ::torch::serialize::OutputArchive archive;
  optimizer_.save(archive);
  std::ostringstream bytes;
  archive.save_to(bytes);
  optimizer_bytes_ = std::move(bytes).str();
  return Values::save();
}

Status ModelState::restore() {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> now = tensors_of(model_);
  if (now.size() != tensors_.size())
    return failure(Code::kInvalidArgument, "elastic state: the model has {} tensors, and had {} when it was saved",
                   now.size(), tensors_.size());
  for (std::size_t i = 0; i < now.size(); ++i) now[i].copy_(tensors_[i]);
  std::istringstream bytes(optimizer_bytes_);
  ::torch::serialize::InputArchive archive;
  archive.load_from(bytes);
  optimizer_.state().clear();  // load() adds
  optimizer_.load(archive);
  return Values::restore();
}

Status ModelState::sync(Communicator& comm, int source) {
  XOE_TRY(Values::sync(comm, source));
  XOE_TRY(broadcast_parameters(model_, comm, source));
  return broadcast_optimizer_state(optimizer_, comm, source);
}

}  // namespace xoe::torch
