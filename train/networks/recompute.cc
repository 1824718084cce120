#include "train/networks/recompute.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <mutex>
#include <utility>
#include <vector>

#include "train/networks/batch_norm.h"

namespace xoe::models {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;
using Forward = std::function<at::Tensor(const at::Tensor&)>;

// The random numbers that follow on the device of `x`.
at::Tensor random_state(const at::Tensor& x) {
  at::Generator generator = at::globalContext().defaultGenerator(x.device());
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}
void set_random_state(const at::Tensor& x, const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(x.device());
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

// What a block did, and how to do it again.
struct BlockPass : ::torch::CustomClassHolder {
  ::torch::nn::Module* module = nullptr;
  Forward forward;
  at::Tensor random;
  bool autocast = false;
  at::ScalarType autocast_type = at::kFloat;
};

// As it was when the block ran: random numbers, autocast, running statistics.
class ForwardContext {
 public:
  ForwardContext(const BlockPass& block, const at::Tensor& x)
      : x_(x), random_(random_state(x)), device_(x.device().type()) {
    for (const auto& module : block.module->modules())
      if (auto* const norm = module->as<BatchNormImpl>()) norms_.push_back(norm);
    for (BatchNormImpl* const norm : norms_) norm->keep_statistics(true);
    set_random_state(x, block.random);
    autocast_ = at::autocast::is_autocast_enabled(device_);
    autocast_type_ = at::autocast::get_autocast_dtype(device_);
    at::autocast::set_autocast_enabled(device_, block.autocast);
    at::autocast::set_autocast_dtype(device_, block.autocast_type);
  }
  ~ForwardContext() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_dtype(device_, autocast_type_);
    at::autocast::set_autocast_enabled(device_, autocast_);
    set_random_state(x_, random_);
    for (BatchNormImpl* const norm : norms_) norm->keep_statistics(false);
  }
  ForwardContext(const ForwardContext&) = delete;
  ForwardContext& operator=(const ForwardContext&) = delete;

 private:
  const at::Tensor& x_;
  at::Tensor random_;
  at::DeviceType device_;
  std::vector<BatchNormImpl*> norms_;
  bool autocast_ = false;
  at::ScalarType autocast_type_ = at::kFloat;
};

// The parameters are inputs, so that their gradients leave by the graph, as without it.
class Recomputed : public ::torch::autograd::Function<Recomputed> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, at::TensorList /*parameters*/,
                            const c10::intrusive_ptr<BlockPass>& block) {
    context->save_for_backward({x});
    context->saved_data["block"] = c10::IValue::make_capsule(block);
    return block->forward(x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor kept = context->get_saved_variables().front();
    const auto held = context->saved_data["block"].toCapsule();
    const auto& block = static_cast<const BlockPass&>(*held);
    variable_list inputs = {kept.detach().set_requires_grad(true)};
    for (const at::Tensor& parameter : block.module->parameters()) inputs.push_back(parameter);
    at::Tensor y;
    {
      const ForwardContext as_before(block, kept);
      const at::AutoGradMode with_graph(true);
      y = block.forward(inputs.front());
    }
    variable_list found = ::torch::autograd::grad({y}, inputs, gradients, /*retain_graph=*/false,
                                                  /*create_graph=*/false, /*allow_unused=*/true);
    if (!context->needs_input_grad(0)) found.front().reset();
    found.emplace_back();  // of the block itself
    return found;
  }
};

}  // namespace

at::Tensor recomputed(::torch::nn::Module& block, const Forward& forward, const at::Tensor& x) {
  auto held = c10::make_intrusive<BlockPass>();
  held->module = &block;
  held->forward = forward;
  held->random = random_state(x);
  held->autocast = at::autocast::is_autocast_enabled(x.device().type());
  held->autocast_type = at::autocast::get_autocast_dtype(x.device().type());
  const std::vector<at::Tensor> parameters = block.parameters();
  return Recomputed::apply(x, at::TensorList(parameters), held);
}

}  // namespace xoe::models
