#include "buckets.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
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
class GradientBuckets::Hook : public ::torch::autograd::FunctionPostHook {
 public:
  Hook(GradientBuckets& buckets, std::size_t parameter) : buckets_(buckets), parameter_(parameter) {}
  ::torch::autograd::variable_list operator()(const ::torch::autograd::variable_list& outputs,
                                              const ::torch::autograd::variable_list&) override {
    buckets_.on_gradient(parameter_);
    return outputs;
  }

 private:
  GradientBuckets& buckets_;
  std::size_t parameter_;
};

Result<std::unique_ptr<GradientBuckets>> GradientBuckets::create(std::vector<NamedParameter> parameters,
                                                                 Communicator& comm,
                                                                 const DistributedOptions& options) {
  std::unique_ptr<GradientBuckets> buckets(new GradientBuckets(std::move(parameters), comm, options));
  for (const NamedParameter& parameter : buckets->parameters_) {
    XOE_ASSIGN(const DType dtype, dtype_of(parameter.tensor.scalar_type()));
    buckets->specs_.push_back({parameter.name, dtype, parameter.tensor.sizes().vec()});
  }
  XOE_TRY(buckets->allocate());
  buckets->attach_hooks();
  buckets->reset();
  return buckets;
}

GradientBuckets::GradientBuckets(std::vector<NamedParameter> parameters, Communicator& comm,
                                 const DistributedOptions& options)
    : comm_(comm), options_(options), parameters_(std::move(parameters)), slots_(parameters_.size()) {}

GradientBuckets::~GradientBuckets() {
  // Peers may be using these buckets, so reductions must end; errors end them too, and cannot be returned from here.
  for (; stopped_ < started_; ++stopped_) static_cast<void>(buckets_[stopped_].reduction.wait());
  for (Slot& slot : slots_) {
    if (slot.remove_hook) slot.remove_hook();
  }
}

Status GradientBuckets::allocate() {
  const auto plans =
      plan_from_last(specs_, {.first_bytes = options_.first_bucket_bytes, .bytes = options_.bucket_bytes});
  for (std::size_t index = 0; index < plans.size(); ++index) {
    const BucketPlan& plan = plans[index];
    Bucket& bucket = buckets_.emplace_back();
    bucket.plan = plan;
    bucket.name = engine::bucket_name(index, plan, specs_);
    if (options_.sharded) bucket.shards = shard_counts(plan.count, comm_.size());
    XOE_ASSIGN(SharedBuffer memory, comm_.shared_buffer(plan.count * dtype_size(plan.dtype)));
    bucket.memory = std::make_shared<SharedBuffer>(std::move(memory));
    bucket.data = bucket.memory->data();
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      const at::Tensor& parameter = parameters_[plan.parameters[i]].tensor;
      Slot& slot = slots_[plan.parameters[i]];
      slot.bucket = index;
      slot.view = tensor_over(bucket.data + plan.offsets[i] * dtype_size(plan.dtype), parameter, bucket.memory);
      // A lone rank reduces nothing, so that its gradients need not go through the bucket.
      if (comm_.size() == 1 && !options_.sharded && !parameter.device().is_cpu())
        slot.view = at::empty_strided(parameter.sizes(), gradient_strides(parameter), parameter.options());
      slot.staged = !options_.gradient_views || slot.view.device() != parameter.device();
    }
  }
  XOE_ASSIGN(used_, comm_.shared_buffer(specs_.size() + 2));
  return {};
}

void GradientBuckets::attach_hooks() {
  for (std::size_t parameter = 0; parameter < slots_.size(); ++parameter) {
    Slot& slot = slots_[parameter];
    // A pointer whose type depends on PyTorch's version.
    const auto accumulator = ::torch::autograd::impl::grad_accumulator(parameters_[parameter].tensor);
    const auto hook = accumulator->add_post_hook(std::make_unique<Hook>(*this, parameter));
    slot.remove_hook = [accumulator, hook] { accumulator->del_post_hook(hook); };
  }
}

BucketInfo GradientBuckets::info(std::size_t bucket) const {
  const Bucket& b = buckets_[bucket];
  return {static_cast<int>(bucket), b.name, b.plan.count * dtype_size(b.plan.dtype)};
}

Status GradientBuckets::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  return failure(*error_);
}

bool GradientBuckets::failed() const {
  const std::lock_guard lock(mutex_);
  return error_.has_value();
}

// An exception would surface in the caller's loss.backward(), so the error is kept for step().
void GradientBuckets::on_gradient(std::size_t parameter) noexcept {
  const std::lock_guard lock(mutex_);
  if (error_) return;
  try {
    const Status status = collect_gradient(parameter);
    if (!status) error_ = status.error();
  } catch (const std::exception& error) {
    error_ = Error(Code::kInternal, fmt::format("gradient of {}: libtorch: {}", specs_[parameter].name, error.what()));
  }
}

Status GradientBuckets::collect_gradient(std::size_t parameter) {
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
  const bool last = ++slot.passes == options_.backward_passes_per_step;
  if (!slot.staged || last) XOE_TRY(move_into_view(parameter, gradient));
  if (last) mark_ready(parameter);
  return advance();
}

// After zero_grad() autograd allocates a new tensor for the gradient, which is cheaper than zeroing the bucket and
// adding to it. It is copied to the bucket while it is still in the cache.
Status GradientBuckets::move_into_view(std::size_t parameter, const at::Tensor& gradient) {
  Slot& slot = slots_[parameter];
  if (gradient.is_same(slot.view)) return {};
  if (gradient.layout() != at::kStrided) {
    return failure(Code::kUnsupported, "gradient of {} is sparse; make its module dense (Embedding: sparse(false))",
                   specs_[parameter].name);
  }
  const at::NoGradGuard no_grad;
  slot.view.copy_(gradient);
  if (!slot.staged) parameters_[parameter].tensor.mutable_grad() = slot.view;
  return {};
}

void GradientBuckets::mark_ready(std::size_t parameter) {
  Slot& slot = slots_[parameter];
  slot.ready = true;
  slot.used = true;
  if (--buckets_[slot.bucket].pending == 0 && options_.observer) options_.observer->bucket_ready(info(slot.bucket));
}

// Starts reductions in bucket order, not in the order of readiness, which may differ between ranks; then progresses the
// earlier ones.
Status GradientBuckets::advance() {
  while (started_ < buckets_.size() && buckets_[started_].pending == 0) {
    XOE_TRY(start(started_));
    ++started_;
  }
  while (stopped_ < started_) {
    XOE_ASSIGN(const bool done, buckets_[stopped_].reduction.test());
    if (!done) break;
    if (options_.observer) options_.observer->bucket_stop(info(stopped_));
    ++stopped_;
  }
  return {};
}

Status GradientBuckets::start(std::size_t index) {
  Bucket& bucket = buckets_[index];
  const BucketPlan& plan = bucket.plan;
  if (options_.average_passes && options_.backward_passes_per_step > 1) {
    const at::NoGradGuard no_grad;
    for (const std::size_t parameter : plan.parameters) slots_[parameter].view.div_(options_.backward_passes_per_step);
  }
  if (options_.observer) options_.observer->bucket_start(info(index));
  const Tensor all(bucket.data, plan.count, plan.dtype);
  const OpOptions named{.name = bucket.name};
  if (!options_.sharded) {
    XOE_ASSIGN(bucket.reduction, comm_.start_allreduce(all, all, options_.op, named));
    return {};
  }
  const std::size_t rank = static_cast<std::size_t>(comm_.rank());
  std::size_t before = 0;
  for (std::size_t r = 0; r < rank; ++r) before += bucket.shards[r];
  const Tensor part(bucket.data + before * dtype_size(plan.dtype), bucket.shards[rank], plan.dtype);
  XOE_ASSIGN(bucket.reduction, comm_.start_reduce_scatter(all, part, bucket.shards, options_.op, named));
  return {};
}

// Called at the end of a step: uses the gradient of earlier passes, or zeros.
Status GradientBuckets::settle(std::size_t parameter, bool discarding) {
  Slot& slot = slots_[parameter];
  const at::Tensor& gradient = parameters_[parameter].tensor.grad();
  if (slot.ready) {
    if (discarding || slot.staged || gradient.is_same(slot.view)) return {};
    return failure(
        Code::kInvalidArgument,
        "gradient of {} was replaced after its reduction started; change gradients in place, after synchronize()",
        specs_[parameter].name);
  }
  if (gradient.defined()) {
    XOE_TRY(move_into_view(parameter, gradient));
    mark_ready(parameter);
    return {};
  }
  slot.view.zero_();
  mark_ready(parameter);
  slot.used = false;
  return {};
}

Status GradientBuckets::complete(bool discarding) {
  const std::lock_guard lock(mutex_);
  if (error_) return failure(*error_);
  if (synchronized_) return {};
  const at::NoGradGuard no_grad;
  Status status;
  try {
    status = finish_reductions(discarding);
  } catch (const std::exception& error) {
    status = failure(Code::kInternal, "synchronize: libtorch: {}", error.what());
  }
  if (!status) error_ = status.error();
  synchronized_ = status.has_value();
  return status;
}

Status GradientBuckets::finish_reductions(bool discarding) {
  for (std::size_t parameter = 0; parameter < slots_.size(); ++parameter) XOE_TRY(settle(parameter, discarding));
  if (options_.observer) options_.observer->wait_start();
  const Status status = wait_for_all(discarding);
  if (options_.observer) options_.observer->wait_stop();
  XOE_TRY(status);
  for (std::size_t parameter = 0; parameter < slots_.size(); ++parameter) restore_views(parameter);
  return {};
}

// The last collective of a step exchanges whether any rank keeps its gradients, whether any rank drops them, and which
// parameters were used. So a rank that drops a step while another is already in the next one is detected before an
// optimizer uses what they reduced together.
Status GradientBuckets::wait_for_all(bool discarding) {
  XOE_TRY(advance());
  const auto flags = used_.as<std::uint8_t>().first(slots_.size() + 2);
  const auto used = flags.first(slots_.size());
  const auto fate = flags.last(2);
  for (std::size_t i = 0; i < slots_.size(); ++i) used[i] = slots_[i].used ? 1 : 0;
  fate[0] = discarding ? 0 : 1;
  fate[1] = discarding ? 1 : 0;
  const auto told = options_.find_unused ? flags : fate;
  const Tensor exchanged(told.data(), told.size());
  XOE_ASSIGN(Handle agreement,
             comm_.start_allreduce(exchanged, exchanged, ReduceOp::kMax, {.name = "used parameters"}));
  for (; stopped_ < started_; ++stopped_) {
    XOE_TRY(buckets_[stopped_].reduction.wait());
    if (options_.observer) options_.observer->bucket_stop(info(stopped_));
  }
  XOE_TRY(agreement.wait());
  if (fate[0] != 0 && fate[1] != 0) {
    return failure(
        Code::kInvalidArgument,
        "some ranks drop the gradients of a step by zero_grad(), others keep theirs: this rank {} them; to skip "
        "a step in which a rank may have had no backward pass, call synchronize(), then zero_grad(), on all ranks",
        discarding ? "drops" : "keeps");
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].used = !options_.find_unused || used[i] != 0;
  return {};
}

void GradientBuckets::restore_views(std::size_t parameter) {
  Slot& slot = slots_[parameter];
  at::Tensor& gradient = parameters_[parameter].tensor.mutable_grad();
  if (!slot.used) {
    gradient.reset();
  } else if (!slot.staged) {
    gradient = slot.view;
  } else {
    if (!gradient.defined()) gradient = at::empty_like(parameters_[parameter].tensor);
    gradient.copy_(slot.view);
  }
}

void GradientBuckets::begin_step() {
  const std::lock_guard lock(mutex_);
  reset();
}

void GradientBuckets::reset() {
  for (Slot& slot : slots_) {
    slot.passes = 0;
    slot.ready = false;
    slot.used = false;
  }
  for (Bucket& bucket : buckets_) {
    bucket.pending = bucket.plan.parameters.size();
    bucket.reduction = {};
  }
  started_ = 0;
  stopped_ = 0;
  synchronized_ = false;
}

// Once a rank has run the step's last backward pass, reductions may be in flight on any rank. All ranks complete them,
// so that they stay in step.
Status GradientBuckets::discard(bool set_to_none) {
  if (std::ranges::any_of(slots_, &Slot::ready)) XOE_TRY(complete(/*discarding=*/true));
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
