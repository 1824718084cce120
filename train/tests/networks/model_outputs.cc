// Computes a network's outputs and gradients from tensors in files, for programs that compare them with another
// library's.
//   xoe_model_outputs MODEL CLASSES WEIGHTS INPUT OUTPUT eval|train|logits
// INPUT holds `images`, whose type is that of all computing, `factors` of the logits and, for a network with auxiliary
// classifiers, `auxiliary_factors.0` and so on of their logits: the loss is the sum of the products. OUTPUT gets
// `logits`, `auxiliary.0` and so on where there are some, `gradient.NAME` of each parameter, and the parameters and
// buffers themselves as they are afterwards; with `logits` those of evaluation alone, for networks that take gigabytes.
// The format of each file is that of its name. Nothing is random: dropout and stochastic depth are off.
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/nn/modules/dropout.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "core/base/error.h"
#include "train/networks/layers.h"
#include "train/trainer/weights.h"

namespace xoe {
namespace {

void drop_nothing(const models::ImageModel& model) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto* const dropout = module->as<::torch::nn::Dropout>()) dropout->options.p(0);
    if (auto* const depth = module->as<models::StochasticDepth>()) depth->set_probability(0);
  }
}

// Whole numbers stay what they are.
void convert(const models::ImageModel& model, at::ScalarType type) {
  for (at::Tensor& parameter : model.parameters()) parameter.set_data(parameter.to(type));
  for (at::Tensor& buffer : model.buffers())
    if (buffer.is_floating_point()) buffer.set_data(buffer.to(type));
}

train::NamedTensors compute(models::ImageModel& model, std::map<std::string, at::Tensor> input) {
  const models::Logits logits = model.forward(input["images"].contiguous(model.memory_format()));
  at::Tensor loss = (logits.main * input["factors"]).sum();
  train::NamedTensors found = {{"logits", logits.main.detach().contiguous()}};
  for (std::size_t i = 0; i < logits.auxiliary.size(); ++i) {
    const std::string number = std::to_string(i);
    loss = loss + (logits.auxiliary[i] * input["auxiliary_factors." + number]).sum();
    found.emplace_back("auxiliary." + number, logits.auxiliary[i].detach().contiguous());
  }
  loss.backward();
  for (const auto& parameter : model.named_parameters()) {
    const at::Tensor gradient = parameter.value().grad();
    if (gradient.defined()) found.emplace_back("gradient." + model.common_name(parameter.key()), gradient.contiguous());
  }
  const at::NoGradGuard no_grad;
  for (auto& named : train::named_weights(model)) found.push_back(std::move(named));
  return found;
}

train::NamedTensors only_logits(models::ImageModel& model, const at::Tensor& images) {
  const at::NoGradGuard no_grad;
  return {{"logits", model.forward(images.contiguous(model.memory_format())).main.contiguous()}};
}

Status run(std::span<const char* const> words) {
  if (words.size() != 6)
    return failure(Code::kInvalidArgument, "expected MODEL CLASSES WEIGHTS INPUT OUTPUT eval|train|logits");
  const std::string mode = words[5];
  XOE_ASSIGN(const train::NamedTensors read, train::read_tensors(words[3]));
  const std::map<std::string, at::Tensor> input(read.begin(), read.end());
  const at::Tensor images = input.at("images");
  XOE_ASSIGN(const models::ModelHandle model,
             models::make_model(words[0], std::atoi(words[1]), static_cast<int>(images.size(2)),
                                static_cast<int>(images.size(3))));
  convert(*model, images.scalar_type());
  XOE_TRY(train::load_weights(words[2], *model, /*new_head=*/false));
  drop_nothing(*model);
  model->train(mode == "train");
  XOE_ASSIGN(const train::ExportFormat format, train::check_export_name(words[4]));
  const auto found = mode == "logits" ? only_logits(*model, images) : compute(*model, input);
  return train::write_tensors(found, {{"format", "pt"}}, format, words[4]);
}

}  // namespace
}  // namespace xoe

int main(int argc, char** argv) {
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  const xoe::Status done = xoe::run(std::vector<const char*>(words.begin() + 1, words.end()));
  if (!done) fmt::print(stderr, "error: {}\n", done.error().message());
  return done ? 0 : 1;
}
