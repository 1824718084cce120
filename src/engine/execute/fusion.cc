#include "engine/execute/fusion.h"

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

// Host memory is scaled tensor by tensor, GPU memory by the collective.
OpSpec fused_spec(const OpSpec& op, DType dtype) {
  OpSpec spec = op;
  spec.dtype = dtype;
  spec.compression = {};
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
    const OpDescriptor& op = submission.op;
    if (!runs_fused(op)) {
      Batch& batch = add_batch(op);
      batch.whole = &submission;
      for (const TensorSize& size : submission.sizes)
        batch.bytes += size.count * dtype_size(static_cast<DType>(size.dtype));
      return;
    }
    for (std::size_t t = 0; t < submission.sizes.size(); ++t) {
      const auto dtype = static_cast<DType>(submission.sizes[t].dtype);
      place({&submission, t}, fused_spec(op, dtype), wire_type(op.compression.kind, dtype));
    }
  }

  void place(TensorSlice slice, const OpSpec& op, DType wire) {
    const std::size_t bytes = slice.count() * dtype_size(wire);
    Batch* chosen = nullptr;
    if (bytes <= limits_.pack_limit)
      for (Batch* batch : open_)
        if (batch->op == op && batch->wire == wire && batch->bytes + bytes <= limits_.threshold) {
          chosen = batch;
          break;
        }
    if (chosen == nullptr) {
      chosen = &add_batch(op);
      chosen->fused = true;
      chosen->wire = wire;
      if (bytes <= limits_.pack_limit) open_.push_back(chosen);
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
  std::vector<Batch*> open_;  // batches that may take more
};

}  // namespace

std::vector<std::unique_ptr<Batch>> plan_batches(std::shared_ptr<const ReadyOps> ready, const FusionLimits& limits) {
  return Planner(std::move(ready), limits).plan();
}

}  // namespace xoe::engine
