#include "frameworks/libtorch/gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <exception>

#include "core/base/error.h"
#include "frameworks/libtorch/memory_order.h"
#include "xoe/torch/tensors.h"

namespace xoe::torch {
namespace {

// Autograd lays out a gradient with the parameter's strides where that is dense, else row-major.
std::vector<std::int64_t> gradient_strides(const at::Tensor& parameter) {
  if (parameter.is_non_overlapping_and_dense()) return parameter.strides().vec();
  std::vector<std::int64_t> strides(static_cast<std::size_t>(parameter.dim()));
  std::int64_t stride = 1;
  for (std::size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(parameter.size(static_cast<std::int64_t>(i)), 1);
  }
  return strides;
}

bool has_bytes_of(const at::Tensor& tensor, const at::Tensor& other) {
  return tensor.device() == other.device() && tensor.scalar_type() == other.scalar_type() && same_order(tensor, other);
}

// Adds the time from construction to destruction.
class Waiting {
 public:
  explicit Waiting(std::chrono::nanoseconds& sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
  ~Waiting() { sum_ += std::chrono::steady_clock::now() - start_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::chrono::nanoseconds& sum_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

at::Tensor tensor_over(void* data, const at::Tensor& parameter, std::shared_ptr<void> owner) {
  return at::from_blob(
      data, parameter.sizes(), gradient_strides(parameter),
      [owner = std::move(owner)](void*) mutable { owner.reset(); },
      parameter.options().device(at::kCPU).requires_grad(false));
}

at::Tensor flat_over(void* data, std::size_t count, at::ScalarType type, std::shared_ptr<void> owner) {
  return at::from_blob(
      data, {static_cast<std::int64_t>(count)}, [owner = std::move(owner)](void*) mutable { owner.reset(); },
      at::TensorOptions(type));
}

double squared_norm_of(const at::Tensor& gradient) {
  const double norm = at::linalg_vector_norm(gradient, 2, at::OptionalIntArrayRef(), false, at::kDouble).item<double>();
  return norm * norm;
}

// Autograd calls this after it has accumulated a parameter's gradient.
class Gradients::Hook : public ::torch::autograd::FunctionPostHook {
 public:
  Hook(Gradients& gradients, std::size_t parameter) : gradients_(gradients), parameter_(parameter) {}
  ::torch::autograd::variable_list operator()(const ::torch::autograd::variable_list& outputs,
                                              const ::torch::autograd::variable_list&) override {
    gradients_.on_gradient(parameter_);
    return outputs;
  }

 private:
  Gradients& gradients_;
  std::size_t parameter_;
};

Result<std::unique_ptr<Gradients>> Gradients::create(std::vector<NamedParameter> parameters, Engine& engine,
                                                     std::string name, const DistributedOptions& options) {
  std::unique_ptr<Gradients> made(new Gradients(std::move(parameters), engine, std::move(name), options));
  for (const NamedParameter& parameter : made->parameters_) {
    XOE_ASSIGN(const DType dtype, dtype_of(parameter.tensor.scalar_type()));
    made->specs_.push_back({parameter.name, dtype, parameter.tensor.sizes().vec()});
  }
  if (options.sharded || (engine.topology().size > 1 && !options.adasum)) XOE_TRY(made->lay_out());
  made->attach_hooks();
  return made;
}

Gradients::Gradients(std::vector<NamedParameter> parameters, Engine& engine, std::string name,
                     const DistributedOptions& options)
    : engine_(engine),
      name_(std::move(name)),
      options_(options),
      parameters_(std::move(parameters)),
      slots_(parameters_.size()) {}

Gradients::~Gradients() {
  for (Slot& slot : slots_)
    if (slot.remove_hook) slot.remove_hook();
  // After a failure ranks may wait for different buckets; peers learn of the end from the engine.
  if (buckets_ != nullptr && !failed() && std::uncaught_exceptions() == 0) buckets_->drain();
}

Status Gradients::lay_out() {
  engine::BucketOptions buckets;
  buckets.name = name_;
  buckets.op = {.kind = options_.sharded ? OpKind::kReduceScatter : OpKind::kAllreduce,
                .reduce = options_.op,
                .compression = options_.compression,
                .needs_all_ranks = true};
  buckets.bytes = options_.bucket_bytes;
  buckets.first_bytes = options_.first_bucket_bytes;
  XOE_ASSIGN(buckets_, engine::GradientBuckets::create(engine_.runtime(), specs_, std::move(buckets)));
  for (std::size_t index = 0; index < buckets_->buckets(); ++index) {
    for (const std::size_t parameter : buckets_->plan(index).parameters) {
      Slot& slot = slots_[parameter];
      const at::Tensor& tensor = parameters_[parameter].tensor;
      slot.view = tensor_over(buckets_->slot(parameter), tensor, buckets_->memory(index));
      slot.staged = !options_.gradient_views || !tensor.is_cpu();
    }
  }
  XOE_ASSIGN(flags_, engine_.shared_buffer(slots_.size() + 2));
  return {};
}

void Gradients::attach_hooks() {
  for (std::size_t parameter = 0; parameter < slots_.size(); ++parameter) {
    Slot& slot = slots_[parameter];
    // A pointer whose type depends on PyTorch's version.
    const auto accumulator = ::torch::autograd::impl::grad_accumulator(parameters_[parameter].tensor);
    const auto hook = accumulator->add_post_hook(std::make_unique<Hook>(*this, parameter));
    slot.remove_hook = [accumulator, hook] { accumulator->del_post_hook(hook); };
  }
}

Status Gradients::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  return failure(*error_);
}

bool Gradients::failed() const {
  const std::lock_guard lock(mutex_);
  return error_.has_value();
}

// --- during backward ---

// An exception would surface in the caller's loss.backward(), so the error is kept for step().
void Gradients::on_gradient(std::size_t parameter) noexcept {
  const std::lock_guard lock(mutex_);
  if (error_) return;
  try {
    const Status status = collect_gradient(parameter);
    if (!status) error_ = status.error();
  } catch (const std::exception& error) {
    error_ = Error(Code::kInternal, fmt::format("gradient of {}: libtorch: {}", specs_[parameter].name, error.what()));
  }
}

Status Gradients::collect_gradient(std::size_t parameter) {
  Slot& slot = slots_[parameter];
  if (slot.ready) {
    return failure(
        Code::kInvalidArgument,
        "gradient of {}: another backward pass after its reduction started; call step() or zero_grad() after {} "
        "backward passes, or raise backward_passes_per_step",
        specs_[parameter].name, options_.backward_passes_per_step);
  }
  const at::Tensor& gradient = parameters_[parameter].tensor.grad();
  if (!gradient.defined()) return {};  // a function returned none: treated as unused
  return take(parameter, gradient, ++slot.passes == options_.backward_passes_per_step);
}

// After zero_grad() autograd allocates a new tensor for the gradient, which is cheaper than zeroing the bucket and
// adding to it. It is copied to the bucket while it is still in the cache. last: it is complete.
Status Gradients::take(std::size_t parameter, const at::Tensor& gradient, bool last) {
  Slot& slot = slots_[parameter];
  if (gradient.layout() != at::kStrided) {
    return failure(Code::kUnsupported, "gradient of {} is sparse; make its module dense (Embedding: sparse(false))",
                   specs_[parameter].name);
  }
  const at::NoGradGuard no_grad;
  at::Tensor complete = gradient;
  if (buckets_ != nullptr && !gradient.is_same(slot.view) && (last || !slot.staged)) {
    const bool put_copies = last && !divides() && has_bytes_of(gradient, slot.view);
    if (!put_copies) complete = slot.view.copy_(gradient);
    if (!slot.staged) parameters_[parameter].tensor.mutable_grad() = slot.view;
  }
  if (!last) return {};
  slot.used = true;
  if (divides()) complete.div_(options_.backward_passes_per_step);
  return put(parameter, complete.data_ptr());
}

Status Gradients::put(std::size_t parameter, const void* gradient) {
  slots_[parameter].ready = true;
  return buckets_ == nullptr ? Status() : buckets_->put(parameter, gradient);
}

// --- before the optimizer's step ---

// Called at the end of a step: takes the gradient of fewer passes, or zeros.
Status Gradients::finish(std::size_t parameter, bool discarding) {
  Slot& slot = slots_[parameter];
  const at::Tensor& gradient = parameters_[parameter].tensor.grad();
  if (slot.ready) {
    if (discarding || slot.staged || buckets_ == nullptr || gradient.is_same(slot.view)) return {};
    return failure(
        Code::kInvalidArgument,
        "gradient of {} was replaced after its reduction started; change gradients in place, after synchronize()",
        specs_[parameter].name);
  }
  if (gradient.defined()) return take(parameter, gradient, /*last=*/true);
  return put(parameter, nullptr);
}

Status Gradients::complete(bool discarding, const Reduced& reduced) {
  const std::lock_guard lock(mutex_);
  if (error_) return failure(*error_);
  if (synchronized_) return {};
  const at::NoGradGuard no_grad;
  Status status;
  try {
    status = finish_reductions(discarding, reduced);
  } catch (const std::exception& error) {
    status = failure(Code::kInternal, "synchronize: libtorch: {}", error.what());
  }
  if (!status) error_ = status.error();
  synchronized_ = status.has_value();
  return status;
}

Status Gradients::finish_reductions(bool discarding, const Reduced& reduced) {
  for (std::size_t parameter = 0; parameter < slots_.size(); ++parameter) XOE_TRY(finish(parameter, discarding));
  if (buckets_ != nullptr) {
    XOE_TRY(exchange_flags(discarding));
    return wait_for_buckets(reduced);
  }
  for (std::size_t parameter = 0; parameter < slots_.size(); ++parameter) {
    if (!options_.find_unused) slots_[parameter].used = true;
    show_result(parameter);
    if (reduced) reduced(parameter);
  }
  return {};
}

// Tells which parameters any rank used, whether any keeps its gradients, and whether any drops them. So a rank that
// drops a step while another is already in the next one is detected before an optimizer uses what they reduced
// together.
Status Gradients::exchange_flags(bool discarding) {
  const auto flags = flags_.as<std::uint8_t>().first(slots_.size() + 2);
  for (std::size_t i = 0; i < slots_.size(); ++i) flags[i] = slots_[i].used ? 1 : 0;
  const auto fate = flags.last(2);
  fate[0] = discarding ? 0 : 1;
  fate[1] = discarding ? 1 : 0;
  const auto told = options_.find_unused ? flags : fate;
  const std::int64_t count = std::ssize(told);
  const TensorArg tensor{.in = told.data(), .out = told.data(), .dtype = DType::kUint8, .shape = {&count, 1}};
  const std::string name = name_ + ".used parameters";
  {
    const Waiting waiting(waited_);
    XOE_TRY(engine_.run(
        {.name = name, .op = {.reduce = ReduceOp::kMax, .needs_all_ranks = true}, .tensors = {&tensor, 1}}));
  }
  if (fate[0] != 0 && fate[1] != 0) {
    return failure(
        Code::kInvalidArgument,
        "some ranks drop the gradients of a step by zero_grad(), others keep theirs: this rank {} them; to skip "
        "a step in which a rank may have had no backward pass, call synchronize(), then zero_grad(), on all ranks",
        discarding ? "drops" : "keeps");
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].used = !options_.find_unused || flags[i] != 0;
  return {};
}

Status Gradients::wait_for_buckets(const Reduced& reduced) {
  for (std::size_t bucket = 0; bucket < buckets_->buckets(); ++bucket) {
    Status status;
    {
      const Waiting waiting(waited_);
      status = buckets_->wait_for(bucket);
    }
    if (!status && reduced && bucket > 0) {
      return failure(status.error().code(), "{}; some parameters are updated, others not: load a checkpoint",
                     status.error().message());
    }
    XOE_TRY(status);
    for (const std::size_t parameter : buckets_->plan(bucket).parameters) {
      show_result(parameter);
      if (reduced) reduced(parameter);
    }
  }
  XOE_ASSIGN([[maybe_unused]] const bool done, buckets_->wait(std::chrono::nanoseconds::max()));
  return {};
}

void Gradients::show_result(std::size_t parameter) {
  const Slot& slot = slots_[parameter];
  at::Tensor& gradient = parameters_[parameter].tensor.mutable_grad();
  if (!slot.used) {
    gradient.reset();
  } else if (buckets_ == nullptr) {
    if (!gradient.defined()) gradient = at::zeros_like(parameters_[parameter].tensor);
  } else if (!slot.staged) {
    gradient = slot.view;
  } else {
    if (!gradient.defined()) gradient = at::empty_like(parameters_[parameter].tensor);
    gradient.copy_(slot.view);
  }
}

void Gradients::begin_step() {
  const std::lock_guard lock(mutex_);
  reset();
}

void Gradients::reset() {
  for (Slot& slot : slots_) {
    slot.passes = 0;
    slot.ready = false;
    slot.used = false;
  }
  synchronized_ = false;
}

// Once a rank has run the step's last backward pass, reductions may be in flight on any rank. All ranks complete them,
// so that they stay in step.
Status Gradients::discard(bool set_to_none) {
  if (std::ranges::any_of(slots_, &Slot::ready)) XOE_TRY(complete(/*discarding=*/true, {}));
  const std::lock_guard lock(mutex_);
  if (error_) return failure(*error_);
  reset();
  for (const NamedParameter& parameter : parameters_) {
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (set_to_none) {
      gradient.reset();
    } else if (gradient.defined()) {
      gradient.detach_().zero_();
    }
  }
  return {};
}

}  // namespace xoe::torch
