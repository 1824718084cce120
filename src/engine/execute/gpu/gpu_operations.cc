#include "engine/execute/gpu/gpu_operations.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/execute/gpu/gpu_lane.h"

namespace xoe::engine {
namespace {

// What every rank tells, by rank.
Task exchange(Workshop& shop, const Running& running, const std::string& mine, std::vector<std::string>& all) {
  const auto size = static_cast<std::size_t>(shop.comm.size());
  const OpOptions options{.name = running.title};
  const auto bytes = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(size);
  const std::vector<std::size_t> ones(size, 1);
  XOE_CO_TRY(shop.comm.start_allgather(ConstTensor(&bytes, 1), Tensor(lengths.data(), size), ones, options));
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::string text(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), '\0');
  XOE_CO_TRY(shop.comm.start_allgather(ConstTensor(mine.data(), mine.size(), DType::kUint8),
                                       Tensor(text.data(), text.size(), DType::kUint8), counts, options));
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    all.push_back(text.substr(begin, count));
    begin += count;
  }
  co_return Status();
}

Task join_lane(Workshop& shop, const Running& running) {
  GpuLane& lane = *shop.lane;
  while (true) {
    XOE_CO_TRY(lane.next_step());
    if (lane.connected()) co_return Status();
    std::vector<std::string> all;
    const std::string mine = lane.given();
    XOE_CO_TRY(exchange(shop, running, mine, all));
    lane.answer(std::move(all));
  }
}

void add_mark(GpuJob& job, const Submission* submission) {
  if (submission != nullptr && submission->mark != nullptr) job.after.push_back(submission->mark);
}

}  // namespace

Task run_with_gpu(Workshop& shop, Running& running, Task then) {
  if (!shop.lane->connected()) XOE_CO_TRY(join_lane(shop, running));
  XOE_CO_TRY(then);
  co_return Status();
}

Result<Handle> start_on_gpu(Workshop& shop, const Running& running, const Item& item, Collective collective) {
  collective.prescale = item.op.prescale * item.op.postscale;
  GpuJob job{.collective = collective,
             .name = running.title,
             .send_counts = {collective.send_counts.begin(), collective.send_counts.end()},
             .recv_counts = {collective.recv_counts.begin(), collective.recv_counts.end()}};
  add_mark(job, item.submission.get());
  return shop.lane->start(std::move(job));
}

Task run_pieces_on_gpu(Workshop& shop, Running& running) {
  const Batch& batch = running.batch;
  GpuJob job{.collective = {.kind = batch.op.kind == OpKind::kBroadcast ? CollectiveKind::kBroadcast
                                                                        : CollectiveKind::kAllreduce,
                            .dtype = batch.op.dtype,
                            .op = batch.op.reduce,
                            .root = batch.op.root,
                            .prescale = batch.op.prescale},
             .name = running.title};
  std::size_t last = running.items->size();
  for (const Piece& piece : batch.pieces) {
    const Submission* const s = (*running.items)[piece.item].submission.get();
    const TensorCopy* const t = s == nullptr ? nullptr : &s->tensors[piece.tensor];
    job.segments.push_back({t == nullptr ? nullptr : t->in, t == nullptr ? nullptr : t->out, piece.count});
    job.collective.in_count += piece.count;
    if (std::exchange(last, piece.item) != piece.item) add_mark(job, s);
  }
  job.collective.out_count = job.collective.in_count;
  auto started = shop.lane->start(std::move(job));
  running.may_follow = true;
  XOE_CO_TRY(std::move(started));
  running.reduced = EngineClock::now();
  co_return Status();
}

}  // namespace xoe::engine
