#include "train/trainer/weights.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/ranges.h>

#include "core/base/error.h"

namespace xoe::train {
namespace {

// The model's own tensors.
void collect(const models::ImageModel& model, const ::torch::nn::Module& module, const std::string& prefix,
             NamedTensors& to) {
  const auto keep = [&](const std::string& name, const at::Tensor& tensor) {
    to.emplace_back(model.common_name(prefix + name), tensor);
  };
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) keep(parameter.key(), parameter.value());
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) keep(buffer.key(), buffer.value());
  for (const auto& child : module.named_children()) collect(model, *child.value(), prefix + child.key() + ".", to);
}

std::string shape_text(const at::Tensor& tensor) { return fmt::format("[{}]", fmt::join(tensor.sizes(), ", ")); }

}  // namespace

NamedTensors named_weights(const models::ImageModel& model) {
  NamedTensors tensors;
  collect(model, model, "", tensors);
  for (auto& [name, tensor] : tensors) tensor = tensor.detach().cpu().clone(at::MemoryFormat::Contiguous);
  return tensors;
}

Status load_weights(const std::string& path, models::ImageModel& model, bool new_head) {
  XOE_ASSIGN(NamedTensors read, read_tensors(path));
  NamedTensors own;
  collect(model, model, "", own);
  std::map<std::string, at::Tensor> stored;
  for (auto& [name, tensor] : read) stored.insert_or_assign(model.current_name(name), std::move(tensor));
  const auto heads = model.head();
  const auto in_head = [&heads](std::string_view name) {
    return std::ranges::any_of(heads, [name](const std::string& head) { return name.starts_with(head + "."); });
  };
  if (new_head) {
    std::erase_if(own, [&](const auto& one) { return in_head(one.first); });
    std::erase_if(stored, [&](const auto& one) { return in_head(one.first); });
  }
  // Files from before PyTorch 0.4.1 do not have these numbers, on which nothing depends.
  std::erase_if(
      own, [&](const auto& one) { return one.first.ends_with(".num_batches_tracked") && !stored.contains(one.first); });
  for (const auto& [name, tensor] : own) {
    const auto found = stored.find(name);
    if (found == stored.end())
      return failure(Code::kInvalidArgument, "{} has no {}, which the model needs; is it of another model?", path,
                     name);
    if (found->second.sizes() != tensor.sizes())
      return failure(Code::kInvalidArgument, "{} in {} has the shape {}; the model's is {}{}", name, path,
                     shape_text(found->second), shape_text(tensor),
                     in_head(name) ? "; for another number of classes give --new-head" : "");
  }
  if (stored.size() > own.size()) {
    for (const auto& [name, tensor] : own) stored.erase(name);
    return failure(Code::kInvalidArgument, "{} has a {}, which the model does not have; is it of another model?", path,
                   stored.begin()->first);
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own) tensor.copy_(stored.at(name));
  return {};
}

}  // namespace xoe::train
