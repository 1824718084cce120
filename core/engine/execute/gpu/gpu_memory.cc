#include "core/engine/execute/gpu/gpu_memory.h"

#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/engine/execute/gpu/staged_collective.h"

namespace xoe::engine {
namespace {

void wait_for_producer(GpuCollective& job, const SubmittedOperation& operation) {
  if (operation.mark != nullptr) job.after.push_back(operation.mark);
}

}  // namespace

bool nccl_scales(const OpSpec& op) noexcept {
  return traits_of(op.reduce).linear && (op.dtype == DType::kFloat32 || op.dtype == DType::kFloat64);
}

// all: what every rank gives, by rank.
Task GpuMemory::exchange(const Batch& batch, const std::string& mine, std::vector<std::string>& all) {
  const auto size = static_cast<std::size_t>(comm_.size());
  const auto bytes = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(size);
  const std::vector<std::size_t> ones(size, 1);
  XOE_CO_TRY(comm_.start_allgather(ConstTensor(&bytes, 1), Tensor(lengths.data(), size), ones, options_of(batch)));
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::string text(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), '\0');
  XOE_CO_TRY(comm_.start_allgather(ConstTensor(mine.data(), mine.size(), DType::kUint8),
                                   Tensor(text.data(), text.size(), DType::kUint8), counts, options_of(batch)));
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    all.push_back(text.substr(begin, count));
    begin += count;
  }
  co_return Status();
}

Task GpuMemory::connect(const Batch& batch) {
  while (true) {
    XOE_CO_TRY(gpu_.next_step());
    if (gpu_.connected()) break;
    std::vector<std::string> all;
    const std::string mine = gpu_.given();
    XOE_CO_TRY(exchange(batch, mine, all));
    gpu_.answer(std::move(all));
  }
  gpu_.warn_if_staged();
  co_return Status();
}

Task GpuMemory::run(Batch& batch, const SubmittedOperation& operation, const Collective& collective) {
  const OpSpec& op = operation.op;
  GpuCollective job{.collective = collective,
                    .name = batch.title,
                    .factors = {{op.prescale, op.postscale}},
                    .send_counts = {collective.send_counts.begin(), collective.send_counts.end()},
                    .recv_counts = {collective.recv_counts.begin(), collective.recv_counts.end()}};
  wait_for_producer(job, operation);
  OpSpec spec = op;
  spec.dtype = collective.dtype;  // a group's tensors may differ in type
  XOE_CO_TRY(run_job(std::move(job), spec, batch, /*whole_batch=*/false));
  co_return Status();
}

Task GpuMemory::run_fused(Batch& batch) {
  const OpSpec& op = batch.op;
  GpuCollective job{
      .collective = {.kind = op.kind == OpKind::kBroadcast ? CollectiveKind::kBroadcast : CollectiveKind::kAllreduce,
                     .dtype = op.dtype,
                     .op = op.reduce,
                     .root = op.root},
      .name = batch.title};
  const SubmittedOperation* last = nullptr;
  for (const TensorSlice& slice : batch.slices) {
    const SubmittedOperation& s = slice.operation();
    const TensorCopy* const t = s.placeholder ? nullptr : &slice.copy();
    job.segments.push_back({t == nullptr ? nullptr : t->in, t == nullptr ? nullptr : t->out, slice.count()});
    job.factors.push_back({s.op.prescale, s.op.postscale});
    job.collective.in_count += slice.count();
    if (std::exchange(last, &s) != &s) wait_for_producer(job, s);
  }
  const bool waited_for =
      std::ranges::any_of(batch.slices, [](const auto& slice) { return slice.submission->launched != nullptr; });
  if (waited_for)
    job.on_launch = [ready = batch.ready, slices = batch.slices](const std::shared_ptr<const void>& event) {
      for (const TensorSlice& slice : slices)
        if (slice.submission->launched) slice.submission->launched->add(event);
    };
  job.collective.out_count = job.collective.in_count;
  XOE_CO_TRY(run_job(std::move(job), op, batch, /*whole_batch=*/true));
  batch.note_reduced(/*unpacks=*/false);
  co_return Status();
}

// op: of the collective's type.
Task GpuMemory::run_job(GpuCollective job, const OpSpec& op, Batch& batch, bool whole_batch) {
  job.collective.prescale = op.prescale * op.postscale;
  const bool plain = op.prescale == 1 && op.postscale == 1;
  if ((plain || nccl_scales(op)) && gpu_.takes(job.view())) {
    batch.gpu_transport = GpuTransport::kNccl;
    auto started = gpu_.start(std::move(job));
    batch.may_follow |= whole_batch;
    XOE_CO_TRY(std::move(started));
    co_return Status();
  }
  batch.gpu_transport = GpuTransport::kStaged;
  StagedCollective staged(comm_, gpu_, job, batch, whole_batch);
  XOE_CO_TRY(staged.run());
  co_return Status();
}

const std::byte* GpuMemory::reduction_input(const SubmittedOperation& operation, std::size_t tensor,
                                            std::vector<std::byte>&) const {
  return operation.placeholder ? nullptr : operation.tensors[tensor].in;
}

std::byte* GpuMemory::discarded_output(std::size_t, std::vector<std::byte>&) const { return nullptr; }

// The collective has applied both factors.
void GpuMemory::scale_result(const SubmittedOperation&, const Tensor&) const {}

}  // namespace xoe::engine
