#include "core/engine/execute/batch_runner.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace xoe::engine {
namespace {

bool runs_fused(const OpDescriptor& op) {
  if (op.internal != InternalKind::kNone) return false;
  if (op.kind == OpKind::kBroadcast) return true;
  if (op.kind != OpKind::kAllreduce || op.compression.error_feedback) return false;
  return op.compression.kind == Compression::kNone || op.compression.kind == Compression::kFloat16 ||
         op.compression.kind == Compression::kBfloat16;
}

DType wire_type(Compression compression, DType dtype) {
  if (compression == Compression::kFloat16) return DType::kFloat16;
  if (compression == Compression::kBfloat16) return DType::kBfloat16;
  return dtype;
}

// Host memory is scaled tensor by tensor. So is what NCCL does not scale, and then the factors must be those of all.
OpSpec fused_spec(const OpSpec& op, DType dtype) {
  OpSpec spec = op;
  spec.dtype = dtype;
  spec.compression = {};
  if (op.gpu && !nccl_scales(spec)) return spec;
  spec.prescale = op.gpu ? op.prescale * op.postscale : 1;
  spec.postscale = 1;
  return spec;
}

class Planner {
 public:
  Planner(std::shared_ptr<const ReadyOps> ready, const FusionLimits& limits)
      : ready_(std::move(ready)), limits_(limits) {}

  std::vector<std::unique_ptr<Batch>> plan() {
    for (const auto& submission : *ready_) add(*submission);
    return std::move(batches_);
  }

 private:
  void add(Submission& submission) {
    const SubmittedOperation& operation = submission.operation();
    const OpDescriptor& op = operation.op;
    if (!runs_fused(op)) {
      Batch& batch = add_batch(op);
      batch.whole = &submission;
      for (const TensorSize& size : operation.sizes)
        batch.bytes += size.count * dtype_size(static_cast<DType>(size.dtype));
      return;
    }
    for (std::size_t t = 0; t < operation.sizes.size(); ++t)
      place({&submission, t}, kind_of(op, static_cast<DType>(operation.sizes[t].dtype)));
  }

  // Tensors of one kind may travel together.
  struct Kind {
    OpSpec op;
    DType wire;
    std::vector<Batch*> open;  // batches that may take more
  };

  // Most often that of the tensor before.
  Kind& kind_of(const OpSpec& op, DType dtype) {
    if (last_ != nullptr && dtype == last_dtype_ && op == last_op_) return *last_;
    const OpSpec fused = fused_spec(op, dtype);
    const DType wire = wire_type(op.compression.kind, dtype);
    auto found = std::find_if(kinds_.begin(), kinds_.end(),
                              [&](const Kind& kind) { return kind.op == fused && kind.wire == wire; });
    if (found == kinds_.end()) found = kinds_.insert(found, Kind{fused, wire, {}});
    last_op_ = op;
    last_dtype_ = dtype;
    last_ = &*found;
    return *last_;
  }

  void place(TensorSlice slice, Kind& kind) {
    const std::size_t bytes = slice.count() * dtype_size(kind.wire);
    Batch* chosen = nullptr;
    if (bytes <= limits_.pack_limit)
      for (Batch* batch : kind.open)
        if (batch->bytes + bytes <= limits_.threshold) {
          chosen = batch;
          break;
        }
    if (chosen == nullptr) {
      chosen = &add_batch(kind.op);
      chosen->fused = true;
      chosen->wire = kind.wire;
      if (bytes <= limits_.pack_limit) kind.open.push_back(chosen);
    }
    chosen->slices.push_back(slice);
    chosen->bytes += bytes;
  }

  Batch& add_batch(const OpSpec& op) {
    batches_.push_back(std::make_unique<Batch>());
    batches_.back()->op = op;
    batches_.back()->ready = ready_;
    return *batches_.back();
  }

  std::shared_ptr<const ReadyOps> ready_;
  FusionLimits limits_;
  std::vector<std::unique_ptr<Batch>> batches_;
  std::vector<Kind> kinds_;
  Kind* last_ = nullptr;
  OpSpec last_op_;
  DType last_dtype_ = DType::kUint8;
};

// The readiness table refuses this where a rank of a host has joined; where all have, it is found out here.
bool lacks_data(const OpContext& context, const SubmittedOperation& s) {
  return s.placeholder && has_root(s.op.kind) && context.comm.rank() == s.op.root;
}

Task refuse(const Batch& batch) {
  co_return failure(Code::kInvalidArgument, "'{}' needs data from this rank, which has joined", batch.title);
}

Task connect_first(TargetMemory& memory, const Batch& batch, Task then) {
  XOE_CO_TRY(memory.connect(batch));
  XOE_CO_TRY(then);
  co_return Status();
}

Task run_batch(OpContext& context, Batch& batch) {
  bool refused = false;
  batch.each_submission([&](const Submission& s) { refused |= lacks_data(context, s.operation()); });
  if (refused) return refuse(batch);
  TargetMemory& memory = context.memory_of(batch.op);
  Task task = batch.fused ? memory.run_fused(batch) : run_whole(context, batch);
  return memory.connected() ? std::move(task) : connect_first(memory, batch, std::move(task));
}

}  // namespace

std::vector<std::unique_ptr<Batch>> plan_batches(std::shared_ptr<const ReadyOps> ready, const FusionLimits& limits) {
  return Planner(std::move(ready), limits).plan();
}

void BatchRunner::add(std::vector<std::unique_ptr<Batch>> batches, int in_flight) {
  in_flight_ = in_flight;
  for (auto& batch : batches) queued_.push_back(std::move(batch));
}

const Batch* BatchRunner::startable() const noexcept {
  if (queued_.empty() || !has_room() || (!running_.empty() && !running_.back()->may_follow)) return nullptr;
  const Batch& next = *queued_.front();
  // An operation of the engine itself runs alone.
  return next.internal() && !running_.empty() ? nullptr : &next;
}

std::unique_ptr<Batch> BatchRunner::take_next() {
  auto batch = std::move(queued_.front());
  queued_.pop_front();
  batch->started = batch->packed = batch->reduced = EngineClock::now();
  batch->each_submission([](Submission& s) { s.progress.range.end(); });
  return batch;
}

void BatchRunner::start() {
  auto batch = take_next();
  if (profiler_ != nullptr) {
    const bool packs = batch->fused && context_.memory_of(batch->op).packs(*batch);
    batch->range = profiler_->start(packs ? ProfiledStage::kPack : ProfiledStage::kReduce, batch->title, batch->bytes);
  }
  batch->task = run_batch(context_, *batch);
  running_.push_back(std::move(batch));
  running_.back()->task.advance();
}

// Collectives complete in order: if the first one has not completed, none after it has.
bool BatchRunner::advance_first(bool& moved) {
  if (running_.empty()) return false;
  Batch& batch = *running_.front();
  const bool followed = batch.may_follow;
  const bool done = batch.task.advance();
  moved |= done || batch.may_follow != followed;
  if (done) {
    batch.done = EngineClock::now();
    batch.range.end();
  }
  return done;
}

std::unique_ptr<Batch> BatchRunner::take_first() {
  auto batch = std::move(running_.front());
  running_.pop_front();
  return batch;
}

std::uint64_t BatchRunner::completed_position(std::uint64_t end) const noexcept {
  if (!queued_.empty()) end = queued_.front()->position;
  if (!running_.empty()) end = std::min(end, running_.front()->position);
  return end;
}

ReadyOps BatchRunner::unfinished() const {
  ReadyOps all;
  const ReadyOps* last = nullptr;
  for (const auto* batches : {&running_, &queued_})
    for (const auto& batch : *batches) {
      // Batches between two seals follow each other and share their submissions.
      if (batch->ready.get() == std::exchange(last, batch->ready.get())) continue;
      for (const auto& submission : *batch->ready)
        if (!submission->operation().placeholder && !submission->done()) all.push_back(submission);
    }
  return all;
}

void BatchRunner::clear() {
  running_.clear();
  queued_.clear();
}

}  // namespace xoe::engine
