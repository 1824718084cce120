#include "frameworks/libtorch/shards.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <exception>
#include <map>

#include "core/base/error.h"
#include "frameworks/libtorch/memory_order.h"
#include "frameworks/libtorch/optimizer_state.h"

namespace xoe::torch {
namespace {

// The elements of `tensor`, in the order of the parameter's elements in its bucket.
at::Tensor flat_like(const at::Tensor& tensor, const at::Tensor& parameter) {
  at::Tensor ordered = tensor;
  if (!same_order(tensor, parameter)) {
    ordered = at::empty_strided(parameter.sizes(), parameter.strides(), tensor.options());
    ordered.copy_(tensor);
  }
  return ordered.as_strided({ordered.numel()}, {1});
}

}  // namespace

Result<std::unique_ptr<Shards>> Shards::create(::torch::optim::Optimizer& optimizer, Gradients& gradients,
                                               Communicator& comm) {
  std::unique_ptr<Shards> shards(new Shards(optimizer, gradients, comm));
  shards->prototype_ = make_state(optimizer);
  if (!shards->prototype_) {
    return failure(
        Code::kUnsupported,
        "sharded: only SGD, Adam, AdamW, RMSprop, Adagrad, LARS and LAMB (and classes derived from them); use sharded "
        "= false");
  }
  if (comm.local_size() != comm.size()) {
    return failure(Code::kUnsupported, "sharded: {} of {} ranks are on this host, and all must be; use sharded = false",
                   comm.local_size(), comm.size());
  }
  for (const NamedParameter& parameter : gradients.parameters()) {
    if (!parameter.tensor.device().is_cpu()) {
      return failure(Code::kUnsupported, "sharded: {} is on {}, and must be in host memory; use sharded = false",
                     parameter.name, parameter.tensor.device().str());
    }
  }
  const at::NoGradGuard no_grad;
  XOE_TRY(shards->move_parameters());
  shards->make_parts();
  shards->slice_state();
  return shards;
}

Shards::Shards(::torch::optim::Optimizer& optimizer, Gradients& gradients, Communicator& comm)
    : optimizer_(optimizer), gradients_(gradients), comm_(comm) {
  for (const auto& group : optimizer.param_groups()) whole_groups_.push_back(group.params());
}

// Peers may still read the shared copy, so it is released only after a barrier. After a failure there can be no
// barrier: then the copy stays until the process ends, so that peers can still save the parameters. The optimizer's
// state is lost; close() gathers it.
Shards::~Shards() {
  if (!sharded_) return;
  make_private();
  const bool orderly = std::uncaught_exceptions() == 0 && !gradients_.failed() &&
                       comm_.barrier({.name = "end of a sharded optimizer"}).has_value();
  if (!orderly && memory_) static_cast<void>(new std::shared_ptr<SharedBuffer>(memory_));
  install_whole({});
}

Status Shards::move_parameters() {
  std::size_t bytes = 0;
  std::vector<std::size_t> offsets;
  for (std::size_t b = 0; b < gradients_.buckets(); ++b) {
    offsets.push_back(bytes);
    bytes += (gradients_.plan(b).bytes() + 4095) / 4096 * 4096;
  }
  XOE_ASSIGN(SharedBuffer memory, comm_.shared_buffer(std::max<std::size_t>(bytes, 1)));
  memory_ = std::make_shared<SharedBuffer>(std::move(memory));
  XOE_ASSIGN(const std::vector<std::byte*> peers, comm_.map_peers(*memory_, {.name = "sharded parameters"}));
  // The buffers of other ranks are only a means to map rank 0's: none of their pages is touched.
  if (comm_.rank() != 0) memory_.reset();

  for (std::size_t b = 0; b < offsets.size(); ++b) {
    bucket_starts_.push_back(peers[0] + offsets[b]);
    const engine::BucketPlan& plan = gradients_.plan(b);
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      at::Tensor parameter = gradients_.parameters()[plan.parameters[i]].tensor;
      const at::Tensor shared =
          tensor_over(bucket_starts_[b] + plan.offsets[i] * dtype_size(plan.dtype), parameter, memory_);
      if (comm_.rank() == 0) shared.copy_(parameter);
      parameter.set_data(shared);
    }
  }
  sharded_ = true;
  return comm_.barrier({.name = "sharded parameters"});
}

void Shards::make_parts() {
  for (std::size_t b = 0; b < bucket_starts_.size(); ++b) {
    const engine::BucketPlan& plan = gradients_.plan(b);
    const engine::BucketPart own = engine::part_of(plan, comm_.rank(), comm_.size());
    for (const ParameterSlice& slice : slices_within(plan, gradients_.specs(), own)) {
      const at::ScalarType type = gradients_.parameters()[slice.parameter].tensor.scalar_type();
      const std::size_t offset = slice.in_bucket * dtype_size(plan.dtype);
      parts_.push_back({slice, b, flat_over(bucket_starts_[b] + offset, slice.count, type, memory_),
                        flat_over(gradients_.memory(b)->data() + offset, slice.count, type, gradients_.memory(b))});
    }
  }
  std::map<const void*, std::vector<at::Tensor>> by_parameter;
  for (const Part& part : parts_) {
    by_parameter[gradients_.parameters()[part.slice.parameter].tensor.unsafeGetTensorImpl()].push_back(part.tensor);
  }
  for (const auto& group : whole_groups_) {
    auto& parts = part_groups_.emplace_back();
    for (const at::Tensor& parameter : group) {
      const auto found = by_parameter.find(parameter.unsafeGetTensorImpl());
      if (found != by_parameter.end()) parts.insert(parts.end(), found->second.begin(), found->second.end());
    }
  }
}

// Replaces the state of whole parameters by the state of this rank's parts.
void Shards::slice_state() {
  auto& states = optimizer_.state();
  std::vector<std::pair<void*, State>> sliced;
  for (const Part& part : parts_) {
    const at::Tensor& parameter = gradients_.parameters()[part.slice.parameter].tensor;
    const auto found = states.find(parameter.unsafeGetTensorImpl());
    if (found == states.end()) continue;
    State state = found->second->clone();
    const std::int64_t first = static_cast<std::int64_t>(part.slice.in_parameter);
    for (at::Tensor* field : fields_of(*state).tensors) {
      if (!field->defined()) continue;
      *field = flat_like(*field, parameter).narrow(0, first, static_cast<std::int64_t>(part.slice.count)).clone();
    }
    sliced.emplace_back(part.tensor.unsafeGetTensorImpl(), std::move(state));
  }
  states.clear();
  for (auto& [key, state] : sliced) states[key] = std::move(state);
  install_parts();
}

Status Shards::open_update() {
  XOE_TRY(comm_.barrier({.name = "sharded update"}));
  for (Part& part : parts_) {
    if (gradients_.used(part.slice.parameter)) part.tensor.mutable_grad() = part.gradient;
  }
  return {};
}

Status Shards::update(LayerwiseOptimizer& optimizer) {
  const at::NoGradGuard no_grad;
  std::map<const void*, const ::torch::optim::OptimizerParamGroup*> groups;
  for (const auto& group : optimizer.param_groups())
    for (const at::Tensor& part : group.params()) groups.emplace(part.unsafeGetTensorImpl(), &group);
  const auto used = [](const Part& part) { return part.tensor.grad().defined() && part.slice.count > 0; };
  const auto group_of = [&](const Part& part) -> const auto& { return *groups.at(part.tensor.unsafeGetTensorImpl()); };
  std::vector<double> norms(2 * gradients_.parameters().size());
  for (const Part& part : parts_) {
    if (!used(part)) continue;
    const LayerNorms own = optimizer.measure(part.tensor, group_of(part));
    norms[2 * part.slice.parameter] += own.parameter;
    norms[2 * part.slice.parameter + 1] += own.update;
  }
  XOE_TRY(comm_.allreduce(Tensor(norms.data(), norms.size()), ReduceOp::kSum, {.name = "norms of layers"}));
  for (const Part& part : parts_) {
    if (!used(part)) continue;
    const double* const whole = &norms[2 * part.slice.parameter];
    optimizer.apply(part.tensor, group_of(part), {.parameter = whole[0], .update = whole[1]});
  }
  return {};
}

Status Shards::close_update() {
  for (Part& part : parts_) part.tensor.mutable_grad().reset();
  // Only parts of the gradients are reduced: they must not be added to, or taken for the result.
  for (const NamedParameter& parameter : gradients_.parameters()) parameter.tensor.mutable_grad().reset();
  const Status status = comm_.barrier({.name = "sharded update"});
  if (!status) {
    return failure(status.error().code(), fmt::format("{}; the shared parameters are half updated: load a checkpoint",
                                                      status.error().message()));
  }
  return {};
}

double Shards::squared_norm() const {
  double sum = 0;
  for (const Part& part : parts_) {
    if (gradients_.used(part.slice.parameter)) sum += squared_norm_of(part.gradient);
  }
  return sum;
}

void Shards::scale_gradients(double factor) {
  for (Part& part : parts_) part.gradient.mul_(factor);
}

void Shards::clip_gradients(double largest) {
  for (Part& part : parts_) part.gradient.clamp_(-largest, largest);
}

void Shards::install_parts() {
  for (std::size_t group = 0; group < part_groups_.size(); ++group) {
    optimizer_.param_groups()[group].params() = part_groups_[group];
  }
}

void Shards::install_whole(std::vector<State> states) {
  auto& current = optimizer_.state();
  current.clear();
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states[i]) current[gradients_.parameters()[i].tensor.unsafeGetTensorImpl()] = std::move(states[i]);
  }
  for (std::size_t group = 0; group < whole_groups_.size(); ++group) {
    optimizer_.param_groups()[group].params() = whole_groups_[group];
  }
}

void Shards::make_private() {
  const at::NoGradGuard no_grad;
  for (const NamedParameter& parameter : gradients_.parameters()) {
    at::Tensor tensor = parameter.tensor;
    tensor.set_data(tensor.detach().clone(at::MemoryFormat::Preserve));
  }
}

// A row for each parameter: whether each field of its state exists, then its numbers; -1: missing.
std::size_t Shards::columns() const {
  const StateFields fields = fields_of(*prototype_);
  return fields.tensors.size() + fields.numbers.size();
}

Result<std::vector<std::int64_t>> Shards::gather_numbers() {
  std::vector<std::int64_t> rows(gradients_.parameters().size() * columns(), -1);
  for (const Part& part : parts_) {
    const auto found = optimizer_.state().find(part.tensor.unsafeGetTensorImpl());
    if (found == optimizer_.state().end()) continue;
    const StateFields fields = fields_of(*found->second);
    std::int64_t* cell = &rows[part.slice.parameter * columns()];
    for (const at::Tensor* field : fields.tensors) *cell++ = field->defined() ? 1 : -1;
    for (const std::int64_t* number : fields.numbers) *cell++ = *number;
  }
  XOE_TRY(comm_.allreduce(Tensor(rows.data(), rows.size()), ReduceOp::kMax, {.name = "optimizer state"}));
  return rows;
}

Status Shards::gather_field(std::size_t bucket, std::size_t field, const std::vector<std::int64_t>& numbers,
                            std::vector<State>& whole) {
  const engine::BucketPlan& plan = gradients_.plan(bucket);
  const auto present = [&](std::size_t parameter) { return numbers[parameter * columns() + field] > 0; };
  if (std::ranges::none_of(plan.parameters, present)) return {};

  const auto options = at::TensorOptions(gradients_.parameters()[plan.parameters.front()].tensor.scalar_type());
  const at::Tensor all = at::zeros({static_cast<std::int64_t>(plan.count)}, options);
  for (const Part& part : parts_) {
    if (part.bucket != bucket || !present(part.slice.parameter)) continue;
    const at::Tensor& mine = *fields_of(*optimizer_.state()[part.tensor.unsafeGetTensorImpl()]).tensors[field];
    all.narrow(0, static_cast<std::int64_t>(part.slice.in_bucket), static_cast<std::int64_t>(part.slice.count))
        .copy_(mine);
  }
  std::vector<std::size_t> counts;
  for (int r = 0; r < comm_.size(); ++r) counts.push_back(engine::part_of(plan, r, comm_.size()).count);
  const engine::BucketPart own = engine::part_of(plan, comm_.rank(), comm_.size());
  std::byte* const data = static_cast<std::byte*>(all.data_ptr());
  const ConstTensor part(data + own.begin * dtype_size(plan.dtype), own.count, plan.dtype);
  XOE_TRY(comm_.allgather(part, Tensor(data, plan.count, plan.dtype), counts, {.name = "optimizer state"}));
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    const std::size_t parameter = plan.parameters[i];
    if (!present(parameter)) continue;
    const at::Tensor& tensor = gradients_.parameters()[parameter].tensor;
    at::Tensor value = at::empty_strided(tensor.sizes(), tensor.strides(), options);
    value.as_strided({value.numel()}, {1})
        .copy_(all.narrow(0, static_cast<std::int64_t>(plan.offsets[i]), value.numel()));
    *fields_of(*whole[parameter]).tensors[field] = std::move(value);
  }
  return {};
}

Result<std::vector<Shards::State>> Shards::gather_state() {
  XOE_ASSIGN(const std::vector<std::int64_t> numbers, gather_numbers());
  const std::size_t field_count = fields_of(*prototype_).tensors.size();
  std::vector<State> whole(gradients_.parameters().size());
  for (std::size_t parameter = 0; parameter < whole.size(); ++parameter) {
    const std::int64_t* row = &numbers[parameter * columns()];
    if (std::all_of(row, row + columns(), [](std::int64_t cell) { return cell < 0; })) continue;
    whole[parameter] = prototype_->clone();
    const StateFields fields = fields_of(*whole[parameter]);
    for (std::size_t i = 0; i < fields.numbers.size(); ++i) *fields.numbers[i] = row[field_count + i];
  }
  for (std::size_t bucket = 0; bucket < bucket_starts_.size(); ++bucket) {
    for (std::size_t field = 0; field < field_count; ++field) {
      XOE_TRY(gather_field(bucket, field, numbers, whole));
    }
  }
  return whole;
}

Status Shards::save(::torch::serialize::OutputArchive& archive) {
  const at::NoGradGuard no_grad;
  XOE_ASSIGN(std::vector<State> whole, gather_state());
  if (comm_.rank() != 0) return {};
  auto parts = std::move(optimizer_.state());
  install_whole(std::move(whole));
  optimizer_.save(archive);
  install_parts();
  optimizer_.state() = std::move(parts);
  return {};
}

Status Shards::load(::torch::serialize::InputArchive& archive) {
  const at::NoGradGuard no_grad;
  install_whole({});
  optimizer_.load(archive);
  slice_state();
  return {};
}

Status Shards::unshard() {
  const at::NoGradGuard no_grad;
  XOE_ASSIGN(std::vector<State> whole, gather_state());
  make_private();
  // After the barrier no rank reads the shared copy.
  XOE_TRY(comm_.barrier({.name = "close"}));
  install_whole(std::move(whole));
  parts_.clear();
  memory_.reset();
  sharded_ = false;
  return {};
}

}  // namespace xoe::torch
