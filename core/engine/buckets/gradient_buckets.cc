#include "core/engine/buckets/gradient_buckets.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/engine/buckets/common_parameters.h"
#include "core/reduce/copy.h"

namespace xoe::engine {
namespace {

constexpr std::size_t kNamesInMessages = 5;
// What a processor's caches may keep until gradients are reduced.
constexpr std::size_t kCacheBytes = std::size_t{8} << 20;

// Each element of the result depends on the elements at its place alone, whatever it travels with.
bool element_by_element(const CompressionOptions& compression) {
  return compression.kind == Compression::kNone ||
         ((compression.kind == Compression::kFloat16 || compression.kind == Compression::kBfloat16) &&
          !compression.error_feedback);
}

std::string list_of(const std::vector<std::string_view>& names) {
  const std::size_t shown = std::min(names.size(), kNamesInMessages);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

// Between hosts data must travel while backward passes compute.
bool is_one_host(const Topology& topology) { return topology.local_size == topology.size; }

}  // namespace

GradientBuckets::GradientBuckets(const std::shared_ptr<Runtime>& runtime, std::vector<BucketParameter> parameters,
                                 BucketOptions options)
    : runtime_(runtime),
      parameters_(std::move(parameters)),
      options_(std::move(options)),
      one_host_(is_one_host(runtime->topology())),
      use_(one_host_ ? Runtime::Use::kWaited : Runtime::Use::kAsync),
      slots_(parameters_.size()) {}

Result<std::unique_ptr<GradientBuckets>> GradientBuckets::create(const std::shared_ptr<Runtime>& runtime,
                                                                 std::vector<BucketParameter> parameters,
                                                                 BucketOptions options) {
  const std::size_t bytes = options.bytes == 0 ? runtime->bucket_bytes() : options.bytes;
  std::unique_ptr<GradientBuckets> made(new GradientBuckets(runtime, std::move(parameters), std::move(options)));
  const RunRequest run = [&made](const Request& request) { return made->run(request); };
  const std::string& name = made->options_.name;
  const ProcessSetId set = made->options_.process_set;
  XOE_ASSIGN(const CommonParameters common, agree_on_parameters(made->parameters_, bytes, name, set, run));
  const Status allocated = made->allocate(common.parameters, common.bucket_bytes);
  XOE_ASSIGN(const bool all, all_agree(allocated.has_value(), name + " memory", set, run));
  if (!allocated) return failure(allocated.error());
  if (!all)
    return failure(Code::kResourceExhausted,
                   "{}: another rank has no shared memory left for {} buckets; raise "
                   "XOE_ARENA_BYTES",
                   name, made->buckets());
  return made;
}

BucketLimits GradientBuckets::limits(std::size_t bucket_bytes) const {
  if (!element_by_element(options_.op.compression)) return {.first_bytes = 1, .bytes = 1};
  return {.first_bytes = options_.first_bytes == 0 ? bucket_bytes : options_.first_bytes, .bytes = bucket_bytes};
}

Status GradientBuckets::allocate(const std::vector<BucketParameter>& common, std::size_t bucket_bytes) {
  const auto runtime = runtime_.lock();
  if (runtime == nullptr || bucket_bytes == 0) return {};
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < parameters_.size(); ++i) index.emplace(parameters_[i].name, i);
  std::size_t bytes = 0;
  for (BucketPlan& plan : plan_buckets(common, limits(bucket_bytes))) {
    Bucket bucket;
    bucket.name = fmt::format("{}.{}", options_.name, bucket_name(buckets_.size(), plan, common));
    XOE_ASSIGN(SharedBuffer memory, runtime->shared_buffer(plan.bytes()));
    bucket.memory = std::make_shared<SharedBuffer>(std::move(memory));
    XOE_ASSIGN(const std::size_t before, elements_before_own(*runtime, plan));
    bucket.result = bucket.memory->data() + before * dtype_size(plan.dtype);
    const std::size_t element = dtype_size(plan.dtype);
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      const BucketParameter& parameter = common[plan.parameters[i]];
      plan.parameters[i] = index.at(parameter.name);  // as this rank counts them, from here on
      slots_[plan.parameters[i]] = {.data = bucket.memory->data() + plan.offsets[i] * element,
                                    .bytes = parameter.count() * element,
                                    .bucket = buckets_.size()};
    }
    bucket.missing = plan.parameters.size();
    bytes += plan.bytes();
    bucket.plan = std::move(plan);
    buckets_.push_back(std::move(bucket));
  }
  past_cache_ = bytes > kCacheBytes;
  return {};
}

// The first element of a bucket that holds a result on this rank.
Result<std::size_t> GradientBuckets::elements_before_own(const Runtime& runtime, const BucketPlan& plan) const {
  if (options_.op.kind != OpKind::kReduceScatter) return std::size_t{0};
  XOE_ASSIGN(const auto ranks, runtime.process_sets().ranks(options_.process_set));
  const auto own = std::ranges::find(ranks, runtime.topology().rank) - ranks.begin();
  return part_of(plan, static_cast<int>(own), static_cast<int>(ranks.size())).begin;
}

Result<EngineHandle> GradientBuckets::run(const Request& request) {
  const auto runtime = runtime_.lock();
  if (runtime == nullptr) return failure(Code::kUnavailable, "{}: the engine was shut down", options_.name);
  XOE_ASSIGN(auto submission, runtime->submit(request, Runtime::Use::kWaited));
  EngineHandle handle(std::move(submission));
  XOE_TRY(handle.wait());
  return handle;
}

// --- during backward ---

Status GradientBuckets::begin(std::size_t parameter) {
  if (parameter >= slots_.size() || slots_[parameter].data == nullptr)
    return failure(Code::kInvalidArgument, "{}: parameter {} is not in the buckets", options_.name, parameter);
  Bucket& bucket = buckets_[slots_[parameter].bucket];
  EngineHandle abandoned;
  {
    const std::lock_guard lock(mutex_);
    if (slots_[parameter].ready)
      return failure(Code::kInvalidArgument, "{}: the gradient of {} is there already, and the step has not ended",
                     options_.name, parameters_[parameter].name);
    abandoned = bucket.operation;
  }
  if (!abandoned.valid()) [[likely]]
    return {};
  (void)abandoned.wait();  // its step has ended without it
  const std::lock_guard lock(mutex_);
  bucket.operation = {};
  return {};
}

Status GradientBuckets::finish(std::size_t parameter, bool left_out) {
  Slot& slot = slots_[parameter];
  Bucket& bucket = buckets_[slot.bucket];
  {
    const std::lock_guard lock(mutex_);
    slot.ready = true;
    slot.left_out = left_out;
    if (--bucket.missing != 0) return {};
  }
  auto submitted = submit(bucket);
  const std::lock_guard lock(mutex_);
  if (submitted) {
    bucket.operation = std::move(*submitted);
    return {};
  }
  slot.ready = false;
  ++bucket.missing;
  return failure(submitted.error());
}

Status GradientBuckets::put(std::size_t parameter, const void* gradient) {
  XOE_TRY(begin(parameter));
  const Slot& slot = slots_[parameter];
  if (gradient == nullptr)
    std::memset(slot.data, 0, slot.bytes);
  else if (gradient != slot.data)
    past_cache_ ? reduce::copy_past_cache(slot.data, gradient, slot.bytes)
                : static_cast<void>(std::memcpy(slot.data, gradient, slot.bytes));
  return finish(parameter, /*left_out=*/false);
}

Status GradientBuckets::leave_out(std::size_t parameter) {
  XOE_TRY(begin(parameter));
  std::memset(slots_[parameter].data, 0, slots_[parameter].bytes);
  return finish(parameter, /*left_out=*/true);
}

Result<EngineHandle> GradientBuckets::submit(Bucket& bucket) {
  const auto runtime = runtime_.lock();
  if (runtime == nullptr) return failure(Code::kUnavailable, "{}: the engine was shut down", bucket.name);
  const std::array<std::int64_t, 2> rows{static_cast<std::int64_t>(bucket.plan.count / kAlignElements), kAlignElements};
  TensorArg tensor{.in = bucket.memory->data(), .out = bucket.result, .dtype = bucket.plan.dtype, .shape = rows};
  if (!element_by_element(options_.op.compression)) tensor.shape = parameters_[bucket.plan.parameters.front()].shape;
  const std::string left_out = left_out_of(bucket);
  XOE_ASSIGN(auto submission, runtime->submit({.name = bucket.name,
                                               .op = options_.op,
                                               .tensors = {&tensor, 1},
                                               .process_set = options_.process_set,
                                               .timeout = options_.timeout,
                                               .detail = left_out,
                                               .memory = bucket.memory},
                                              use_));
  return EngineHandle(std::move(submission));
}

std::string GradientBuckets::left_out_of(const Bucket& bucket) const {
  std::vector<std::string_view> names;
  for (const std::size_t parameter : bucket.plan.parameters)
    if (slots_[parameter].left_out) names.push_back(parameters_[parameter].name);
  if (names.empty()) return {};
  return fmt::format("without {}, which it does not train, or has with another type or shape now", list_of(names));
}

Status GradientBuckets::check_complete(const Bucket& bucket) const {
  if (bucket.missing == 0) return {};
  std::vector<std::string_view> names;
  for (const std::size_t parameter : bucket.plan.parameters)
    if (!slots_[parameter].ready) names.push_back(parameters_[parameter].name);
  return failure(Code::kInvalidArgument, "{}: no gradient of {} in this step", bucket.name, list_of(names));
}

// --- before the optimizer's step ---

Result<bool> GradientBuckets::wait(std::chrono::nanoseconds timeout) {
  const auto now = EngineClock::now();
  const auto until = timeout < EngineClock::time_point::max() - now ? now + timeout : EngineClock::time_point::max();
  for (const Bucket& bucket : buckets_) XOE_TRY(check_complete(bucket));
  for (; waited_ < buckets_.size(); ++waited_) {
    EngineHandle& operation = buckets_[waited_].operation;
    const auto left = std::max(until - EngineClock::now(), EngineClock::duration::zero());
    Status status = operation.wait_for(left);
    if (!status && status.error().code() == Code::kTimeout) {
      if (!operation.poll()) return false;
      status = operation.wait();  // it has completed: also a timeout of its own
    }
    if (status) continue;
    reset();
    return failure(status.error());
  }
  for (Bucket& bucket : buckets_) bucket.operation = {};
  end_step();
  return true;
}

Status GradientBuckets::wait_for(std::size_t bucket) {
  XOE_TRY(check_complete(buckets_[bucket]));
  Status status = buckets_[bucket].operation.wait();
  if (!status) reset();
  return status;
}

void GradientBuckets::reset() {
  for (Bucket& bucket : buckets_)
    if (bucket.operation.valid() && bucket.operation.poll()) bucket.operation = {};
  end_step();
}

void GradientBuckets::drain() {
  for (Bucket& bucket : buckets_)
    if (bucket.operation.valid()) (void)bucket.operation.wait();
  for (Bucket& bucket : buckets_) bucket.operation = {};
  end_step();
}

void GradientBuckets::end_step() {
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) slot.ready = slot.left_out = false;
  for (Bucket& bucket : buckets_) bucket.missing = bucket.plan.parameters.size();
  waited_ = 0;
  if (one_host_) use_ = idle_.mostly() ? Runtime::Use::kAsync : Runtime::Use::kWaited;
}

}  // namespace xoe::engine
