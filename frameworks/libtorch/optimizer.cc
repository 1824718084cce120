#include "xoe/torch/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "frameworks/libtorch/adasum_update.h"
#include "frameworks/libtorch/fused_step.h"
#include "frameworks/libtorch/gradients.h"
#include "frameworks/libtorch/same_layout.h"
#include "frameworks/libtorch/shards.h"
#include "xoe/torch/tensors.h"

namespace xoe::torch {
namespace {

using ::torch::optim::Optimizer;

// Ends the wrapped optimizer's step() from within its closure.
struct Aborted {};

// Its parameters, in order.
std::vector<at::Tensor> parameters_of(const Optimizer& optimizer) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups())
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  return parameters;
}

// The optimizer's trainable parameters: first those of the module, in its order, which is about that of forward.
std::vector<NamedParameter> trainable_parameters(const Optimizer& optimizer, const ::torch::nn::Module& module) {
  std::map<const void*, std::string> held;
  std::vector<NamedParameter> rest;
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const auto& parameters = optimizer.param_groups()[group].params();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      std::string name = fmt::format("group{}.{}", group, i);
      const bool first = held.emplace(parameters[i].unsafeGetTensorImpl(), name).second;
      if (first && parameters[i].requires_grad()) rest.push_back({std::move(name), parameters[i]});
    }
  }
  std::vector<NamedParameter> result;
  std::set<const void*> taken;
  for (const auto& item : module.named_parameters()) {
    const void* const key = item.value().unsafeGetTensorImpl();
    if (!held.contains(key) || !item.value().requires_grad() || !taken.insert(key).second) continue;
    result.push_back({item.key(), item.value()});
  }
  for (NamedParameter& parameter : rest) {
    if (taken.insert(parameter.tensor.unsafeGetTensorImpl()).second) result.push_back(std::move(parameter));
  }
  return result;
}

std::string text_of(const CompressionOptions& compression) {
  return fmt::format("{} (error_feedback {}, top_k_ratio {}, power_sgd_rank {})", compression_name(compression.kind),
                     compression.error_feedback, compression.top_k_ratio, compression.power_sgd_rank);
}

bool has_ranks_of(const Engine& engine, const Communicator& comm) {
  return engine.topology().rank == comm.rank() && engine.topology().size == comm.size();
}

std::string_view engine_of(const DistributedOptions& options, const Communicator& comm) {
  if (options.engine == nullptr) return "of its own";
  return has_ranks_of(*options.engine, comm) ? "of the communicator's ranks" : "of other ranks";
}

// Strides must agree too: elements are matched by their position in memory.
std::vector<Described> describe_all(const std::vector<NamedParameter>& parameters, const DistributedOptions& options,
                                    const Communicator& comm) {
  std::vector<Described> things;
  things.push_back(
      {"options",
       fmt::format("op {}, bucket_bytes {}, first_bucket_bytes {}, backward_passes_per_step {}, "
                   "average_passes {}, find_unused {}, sharded {}, compression {}, adasum {}, engine {}",
                   reduce_op_name(options.op), options.bucket_bytes, options.first_bucket_bytes,
                   options.backward_passes_per_step, options.average_passes, options.find_unused, options.sharded,
                   text_of(options.compression), options.adasum, engine_of(options, comm))});
  for (const NamedParameter& parameter : parameters) {
    std::ostringstream strides;
    strides << parameter.tensor.strides();
    things.push_back({parameter.name, describe(parameter.tensor) + " strides " + strides.str()});
  }
  return things;
}

Status check_arguments(const std::vector<NamedParameter>& parameters, const DistributedOptions& options) {
  if (!traits_of(options.op).linear) {
    return failure(Code::kInvalidArgument, "DistributedOptimizer: op is {}, and must be average or sum",
                   reduce_op_name(options.op));
  }
  if (options.bucket_bytes == 0 || options.first_bucket_bytes == 0) {
    return failure(Code::kInvalidArgument, "DistributedOptimizer: bucket sizes must not be 0");
  }
  if (options.backward_passes_per_step < 1) {
    return failure(Code::kInvalidArgument,
                   "DistributedOptimizer: backward_passes_per_step is {}, and must be at least 1",
                   options.backward_passes_per_step);
  }
  if (options.sharded && !options.gradient_views) {
    return failure(Code::kInvalidArgument, "DistributedOptimizer: sharded needs gradient_views");
  }
  if (options.sharded && options.compression.kind != Compression::kNone) {
    return failure(Code::kInvalidArgument, "DistributedOptimizer: sharded takes no compression");
  }
  if (options.overlap_step && (options.sharded || options.adasum)) {
    return failure(Code::kInvalidArgument, "DistributedOptimizer: overlap_step takes neither sharding nor adasum");
  }
  if (options.adasum && (options.sharded || options.compression.kind != Compression::kNone)) {
    return failure(Code::kInvalidArgument, "DistributedOptimizer: adasum takes no sharding and no compression");
  }
  if (parameters.empty()) {
    return failure(Code::kInvalidArgument,
                   "DistributedOptimizer: the optimizer has no parameter that requires a gradient");
  }
  for (const NamedParameter& parameter : parameters) {
    if (!parameter.tensor.is_leaf()) {
      return failure(Code::kInvalidArgument, "DistributedOptimizer: {} is not a leaf", parameter.name);
    }
  }
  return {};
}

// The communicator stays free for the caller; the engine has ranks of its own.
Result<std::unique_ptr<Engine>> own_engine(Communicator& comm) {
  std::vector<std::string> warnings;
  XOE_ASSIGN(EngineOptions options, read_engine_options(warnings));
  // Files and ports of the process, which several optimizers would fight for.
  options.timeline.clear();
  options.tune_file.clear();
  options.metrics_port = -1;
  XOE_ASSIGN(auto ranks, comm.split(0, comm.rank()));
  return Engine::create(std::move(*ranks), std::move(options));
}

// A name that no other optimizer of this process has, the same on all ranks. Collective.
Result<std::string> agree_on_name(Communicator& comm) {
  static std::atomic<std::int64_t> next = 0;
  std::int64_t number = next.load();
  XOE_TRY(comm.allreduce(Tensor(&number, 1), ReduceOp::kMax, {.name = "DistributedOptimizer"}));
  for (std::int64_t seen = next.load(); seen <= number && !next.compare_exchange_weak(seen, number + 1);) {
  }
  return fmt::format("gradients.{}", number);
}

}  // namespace

class DistributedOptimizer::Core {
 public:
  Core(Optimizer& optimizer, Communicator& comm, const DistributedOptions& options)
      : optimizer_(optimizer), comm_(comm), options_(options) {}

  Status open(std::vector<NamedParameter> parameters);
  Engine& engine() noexcept { return own_engine_ ? *own_engine_ : *options_.engine; }
  template <class Action>
  Status guarded(Code code, std::string_view what, Action&& action);
  Status check_open() const;
  Status check_parameters() const;
  Status prepare_update();
  Status step();
  Status overlap();
  bool evaluates_once() const;
  void scale_gradients(double factor);
  Status update();
  Status end_update();
  Result<at::Tensor> evaluate(const std::function<at::Tensor()>& closure);

  Optimizer& optimizer_;
  Communicator& comm_;
  const DistributedOptions options_;
  std::vector<at::Tensor> frozen_;
  std::vector<at::Tensor> known_;       // the optimizer's parameters
  std::unique_ptr<Engine> own_engine_;  // null: options_.engine
  std::unique_ptr<Gradients> gradients_;
  std::unique_ptr<Shards> shards_;
  std::unique_ptr<AdasumUpdate> adasum_;
  std::chrono::nanoseconds waited_{0};  // beside that of the gradients
};

Status DistributedOptimizer::Core::check_open() const {
  if (!gradients_) return failure(Code::kInvalidArgument, "DistributedOptimizer: used after close()");
  return {};
}

// Runs `action`, unless closed. Its error, or libtorch's exception, is returned by all later calls too.
template <class Action>
Status DistributedOptimizer::Core::guarded(Code code, std::string_view what, Action&& action) {
  XOE_TRY(check_open());
  Status status;
  try {
    status = action();
  } catch (const std::exception& error) {
    status = failure(code, "{}: libtorch: {}", what, error.what());
  }
  if (!status) return gradients_->fail(status.error());
  return {};
}

Status DistributedOptimizer::Core::open(std::vector<NamedParameter> parameters) {
  for (const auto& group : optimizer_.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.requires_grad()) frozen_.push_back(parameter);
    }
  }
  XOE_ASSIGN(std::string name, agree_on_name(comm_));
  if (options_.engine == nullptr) {
    XOE_ASSIGN(own_engine_, own_engine(comm_));
  }
  std::ranges::reverse(parameters);  // backward passes reach the last ones first
  XOE_ASSIGN(gradients_, Gradients::create(std::move(parameters), engine(), std::move(name), options_));
  if (options_.sharded) {
    XOE_ASSIGN(shards_, Shards::create(optimizer_, *gradients_, comm_));
  }
  if (options_.adasum && comm_.size() > 1) {
    XOE_ASSIGN(adasum_, AdasumUpdate::create(gradients_->parameters(), engine(), gradients_->name()));
  }
  known_ = parameters_of(optimizer_);
  return {};
}

Status DistributedOptimizer::Core::check_parameters() const {
  XOE_TRY(check_open());
  bool same = std::ranges::equal(parameters_of(optimizer_), known_, &at::Tensor::is_same);
  for (const at::Tensor& parameter : frozen_) same = same && !parameter.requires_grad();
  if (same) return {};
  return failure(
      Code::kInvalidArgument,
      "DistributedOptimizer: the optimizer has other parameters now, or frozen ones require gradients: they are "
      "not reduced; create a new DistributedOptimizer");
}

Status DistributedOptimizer::Core::prepare_update() {
  XOE_TRY(check_parameters());
  XOE_TRY(gradients_->synchronize());
  if (shards_) XOE_TRY(shards_->open_update());
  return {};
}

Status DistributedOptimizer::Core::step() {
  XOE_TRY(check_parameters());
  if (options_.overlap_step && !gradients_->synchronized() && takes_fused_step(optimizer_)) {
    XOE_TRY(overlap());
    return end_update();
  }
  XOE_TRY(prepare_update());
  if (adasum_) adasum_->begin();
  XOE_TRY(update());
  return end_update();
}

Status DistributedOptimizer::Core::overlap() {
  std::map<const void*, const ::torch::optim::OptimizerParamGroup*> groups;
  for (const auto& group : optimizer_.param_groups())
    for (const at::Tensor& parameter : group.params()) groups.emplace(parameter.unsafeGetTensorImpl(), &group);
  return gradients_->synchronize_each([&](std::size_t index) {
    const at::Tensor& parameter = gradients_->parameters()[index].tensor;
    fused_step(optimizer_, *groups.at(parameter.unsafeGetTensorImpl()), parameter);
  });
}

// Whether the wrapped optimizer evaluates a closure once, and then steps.
bool DistributedOptimizer::Core::evaluates_once() const {
  return has_fused_step(optimizer_) || dynamic_cast<const LayerwiseOptimizer*>(&optimizer_) != nullptr;
}

Status DistributedOptimizer::Core::update() {
  auto* const layerwise = dynamic_cast<LayerwiseOptimizer*>(&optimizer_);
  if (layerwise != nullptr && shards_) return shards_->update(*layerwise);
  if (!fused_step(optimizer_)) optimizer_.step();
  return {};
}

Status DistributedOptimizer::Core::end_update() {
  const auto start = std::chrono::steady_clock::now();
  Status status;
  if (shards_) status = shards_->close_update();
  if (adasum_) status = adasum_->end();
  waited_ += std::chrono::steady_clock::now() - start;
  XOE_TRY(status);
  gradients_->begin_step();
  engine().note_step();
  return {};
}

Status DistributedOptimizer::step() {
  return core_->guarded(Code::kInvalidArgument, "step", [&] { return core_->step(); });
}

// Evaluates the closure: the loss averaged over ranks, and reduced gradients for the wrapped optimizer.
Result<at::Tensor> DistributedOptimizer::Core::evaluate(const std::function<at::Tensor()>& closure) {
  gradients_->begin_step();
  at::Tensor loss = closure();
  if (!loss.defined()) return failure(Code::kInvalidArgument, "step: the closure returned no loss");
  loss = loss.detach().clone();
  XOE_TRY(prepare_update());
  XOE_TRY(allreduce(loss, comm_, ReduceOp::kAverage, {.name = "loss"}));
  return loss;
}

Result<at::Tensor> DistributedOptimizer::step(const std::function<at::Tensor()>& closure) {
  at::Tensor loss;
  const Status done = core_->guarded(Code::kInvalidArgument, "step", [&]() -> Status {
    if (core_->adasum_) core_->adasum_->begin();
    if (core_->evaluates_once()) {
      const at::AutoGradMode with_grad(true);
      XOE_ASSIGN(loss, core_->evaluate(closure));
      XOE_TRY(core_->update());
      return core_->end_update();
    }
    Status status;
    try {
      loss = core_->optimizer_.step([&] {
        auto evaluated = core_->evaluate(closure);
        if (evaluated) return *evaluated;
        status = failure(evaluated.error());
        throw Aborted();
      });
    } catch (const Aborted&) {
      return status;
    }
    return core_->end_update();
  });
  XOE_TRY(done);
  return loss;
}

Status DistributedOptimizer::synchronize() {
  XOE_TRY(core_->check_parameters());
  return core_->gradients_->synchronize();
}

Status DistributedOptimizer::zero_grad(bool set_to_none) {
  return core_->guarded(Code::kInternal, "zero_grad", [&] { return core_->gradients_->discard(set_to_none); });
}

void DistributedOptimizer::Core::scale_gradients(double factor) {
  if (shards_) return shards_->scale_gradients(factor);
  for (const NamedParameter& parameter : gradients_->parameters()) {
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (gradient.defined()) gradient.mul_(factor);
  }
}

Status DistributedOptimizer::scale_gradients(double factor) {
  XOE_TRY(synchronize());
  return core_->guarded(Code::kInternal, "scale_gradients", [&]() -> Status {
    const at::NoGradGuard no_grad;
    core_->scale_gradients(factor);
    return {};
  });
}

Result<double> DistributedOptimizer::clip_grad_norm(double max_norm) {
  XOE_TRY(synchronize());
  double squares = 0;
  const Status status = core_->guarded(Code::kInternal, "clip_grad_norm", [&]() -> Status {
    const at::NoGradGuard no_grad;
    if (core_->shards_) {
      squares = core_->shards_->squared_norm();
      XOE_TRY(core_->comm_.allreduce(Tensor(&squares, 1), ReduceOp::kSum, {.name = "gradient norm"}));
    } else {
      for (const NamedParameter& parameter : core_->gradients_->parameters()) {
        const at::Tensor& gradient = parameter.tensor.grad();
        if (gradient.defined()) squares += squared_norm_of(gradient);
      }
    }
    const double factor = max_norm / (std::sqrt(squares) + 1e-6);
    if (factor < 1) core_->scale_gradients(factor);
    return {};
  });
  XOE_TRY(status);
  return std::sqrt(squares);
}

Status DistributedOptimizer::clip_grad_value(double largest) {
  if (!(largest > 0)) return failure(Code::kInvalidArgument, "clip_grad_value({}): the limit must be above 0", largest);
  XOE_TRY(synchronize());
  return core_->guarded(Code::kInternal, "clip_grad_value", [&]() -> Status {
    const at::NoGradGuard no_grad;
    if (core_->shards_) {
      core_->shards_->clip_gradients(largest);
      return {};
    }
    for (const NamedParameter& parameter : core_->gradients_->parameters()) {
      at::Tensor& gradient = parameter.tensor.mutable_grad();
      if (gradient.defined()) gradient.clamp_(-largest, largest);
    }
    return {};
  });
}

Status DistributedOptimizer::save_state(::torch::serialize::OutputArchive& archive) {
  return core_->guarded(Code::kInternal, "save_state", [&]() -> Status {
    if (core_->shards_) return core_->shards_->save(archive);
    if (core_->comm_.rank() == 0) core_->optimizer_.save(archive);
    return {};
  });
}

Status DistributedOptimizer::load_state(::torch::serialize::InputArchive& archive) {
  return core_->guarded(Code::kInvalidArgument, "load_state", [&]() -> Status {
    if (core_->shards_) return core_->shards_->load(archive);
    core_->optimizer_.state().clear();  // load() adds
    core_->optimizer_.load(archive);
    return {};
  });
}

Status DistributedOptimizer::close() {
  if (!core_->gradients_) return {};
  if (core_->shards_) XOE_TRY(core_->guarded(Code::kInternal, "close", [&] { return core_->shards_->unshard(); }));
  core_->shards_.reset();
  core_->adasum_.reset();
  core_->gradients_.reset();
  core_->own_engine_.reset();
  return {};
}

DistributedOptimizer::DistributedOptimizer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
DistributedOptimizer::DistributedOptimizer(DistributedOptimizer&&) noexcept = default;
DistributedOptimizer& DistributedOptimizer::operator=(DistributedOptimizer&&) noexcept = default;
DistributedOptimizer::~DistributedOptimizer() = default;

Result<DistributedOptimizer> DistributedOptimizer::create(Optimizer& optimizer, const ::torch::nn::Module& module,
                                                          Communicator& comm, DistributedOptions options) {
  try {
    std::vector<NamedParameter> parameters = trainable_parameters(optimizer, module);
    XOE_TRY(check_arguments(parameters, options));
    XOE_TRY(check_same(describe_all(parameters, options, comm), comm, "DistributedOptimizer"));
    if (options.engine != nullptr && !has_ranks_of(*options.engine, comm)) {
      return failure(Code::kInvalidArgument, "DistributedOptimizer: options.engine is of other ranks than `comm`");
    }
    auto core = std::make_unique<Core>(optimizer, comm, options);
    XOE_TRY(core->open(std::move(parameters)));
    return DistributedOptimizer(std::move(core));
  } catch (const std::exception& error) {
    return failure(Code::kInternal, "DistributedOptimizer: libtorch: {}", error.what());
  }
}

Optimizer& DistributedOptimizer::wrapped() noexcept { return core_->optimizer_; }
int DistributedOptimizer::bucket_count() const noexcept { return static_cast<int>(core_->gradients_->buckets()); }
std::chrono::nanoseconds DistributedOptimizer::waited() const noexcept {
  return core_->waited_ + core_->gradients_->waited();
}

}  // namespace xoe::torch
