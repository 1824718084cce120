#include "core/engine/execute/gpu/staged_collective.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/engine/execute/batch/target_memory.h"
#include "core/reduce/neutral.h"
#include "core/reduce/reduce.h"

namespace xoe::engine {
namespace {

constexpr std::size_t kAlignment = 64;

// Room for two elements of every rank, of any type.
std::size_t slot_bytes_of(std::size_t staging_bytes, int ranks) {
  const std::size_t least = (static_cast<std::size_t>(ranks) * 2 * sizeof(double) + kAlignment - 1) / kAlignment;
  return std::max(staging_bytes / GpuCopies::kSlots / kAlignment, least) * kAlignment;
}

// An earlier operation may still have all slots; it ends before anything else waits for this handle.
class FreeSlot final : public Handle::Work {
 public:
  FreeSlot(GpuCopies& copies, std::size_t& slot) : copies_(copies), slot_(slot) {}

  Result<bool> test() override {
    const auto found = copies_.take_slot();
    if (found) slot_ = *found;
    return found.has_value();
  }
  Status wait() override { return failure(Code::kUnsupported, "a slot of pinned memory is tested for only"); }

 private:
  GpuCopies& copies_;
  std::size_t& slot_;
};

}  // namespace

StagedCollective::StagedCollective(Communicator& comm, GpuCommunicator& gpu, const GpuCollective& job, Batch& batch,
                                   bool whole_batch)
    : comm_(comm),
      copies_(gpu.copies()),
      job_(job),
      batch_(batch),
      whole_batch_(whole_batch),
      collective_(job.view()),
      width_(dtype_size(collective_.dtype)),
      slot_bytes_(slot_bytes_of(gpu.choice().staging_bytes, comm.size())),
      plan_(collective_, static_cast<std::size_t>(comm.rank()), static_cast<std::size_t>(comm.size()),
            slot_bytes_ / width_) {}

Task StagedCollective::run() {
  XOE_CO_TRY(copies_.prepare(slot_bytes_));
  std::size_t rounds = plan_.rounds();
  if (collective_.kind == CollectiveKind::kAlltoall) XOE_CO_TRY(agree_on_rounds(rounds));
  if (rounds == 0) {
    batch_.may_follow |= whole_batch_;
    co_return Status();
  }
  Part part;
  XOE_CO_TRY(begin(0, part));
  Handle copied_back;
  for (std::size_t n = 0; n < rounds; ++n) {
    XOE_CO_TRY(part.filled);
    prepare(part);
    auto reducing = start(part);
    batch_.may_follow |= whole_batch_ && n + 1 == rounds;
    if (!reducing) co_return failure(reducing.error());
    Part next;
    if (n + 1 < rounds) XOE_CO_TRY(begin(n + 1, next));
    XOE_CO_TRY(std::move(reducing));
    auto copying = finish(part);
    if (!copying) co_return failure(copying.error());
    if (copying->valid()) copied_back = *copying;
    part = std::move(next);
  }
  // Copies to the GPU end in order.
  if (copied_back.valid()) XOE_CO_TRY(Result<Handle>(copied_back));
  co_return Status();
}

// A rank knows only what it sends and receives itself.
Task StagedCollective::agree_on_rounds(std::size_t& rounds) {
  auto most = static_cast<std::int64_t>(rounds);
  const Tensor number(&most, 1);
  XOE_CO_TRY(comm_.start_allreduce(number, number, ReduceOp::kMax, options_of(batch_)));
  rounds = static_cast<std::size_t>(most);
  co_return Status();
}

// Starts to copy a round's input to a slot. The transfer also waits until earlier copies out of the slot are done.
Task StagedCollective::begin(std::size_t number, Part& part) {
  part.round = plan_.round(number);
  const auto free_slot = std::make_shared<FreeSlot>(copies_, part.slot);
  XOE_CO_TRY(Result<Handle>(Handle(free_slot)));
  GpuTransfer transfer{.direction = net::GpuDirection::kToHost, .slot = part.slot};
  for (const StagedPiece& piece : part.round.in)
    if (const std::byte* const from = source(piece); from != nullptr)
      transfer.copies.push_back({staged(part, piece.at), from, piece.count * width_});
  if (!transfer.copies.empty() && !std::exchange(waited_in_, true)) transfer.after = job_.after;
  part.filled = copies_.start(std::move(transfer));
  co_return Status();
}

// The input of a rank without a tensor changes nothing.
void StagedCollective::prepare(const Part& part) const {
  if (!is_reduction(collective_.kind)) return;
  for (const StagedPiece& piece : part.round.in) {
    std::byte* const at = staged(part, piece.at);
    if (source(piece) == nullptr)
      reduce::fill_neutral(at, piece.count, collective_.dtype, collective_.op);
    else if (const double factor = job_.factors[piece.array].before; factor != 1)
      reduce::scale(at, piece.count, collective_.dtype, factor);
  }
}

Result<Handle> StagedCollective::start(const Part& part) {
  const StagedRound& round = part.round;
  return comm_.start({.kind = collective_.kind,
                      .dtype = collective_.dtype,
                      .op = collective_.op,
                      .root = collective_.root,
                      .in = staged(part, round.in_at),
                      .out = staged(part, round.out_at),
                      .in_count = round.in_count,
                      .out_count = round.out_count,
                      .send_counts = round.send_counts,
                      .recv_counts = round.recv_counts,
                      .options = options_of(batch_)});
}

// Starts to copy a round's result to the GPU; without a handle: this rank has no memory for it.
Result<Handle> StagedCollective::finish(const Part& part) {
  GpuTransfer transfer{.direction = net::GpuDirection::kToGpu, .slot = part.slot};
  for (const StagedPiece& piece : part.round.out) {
    std::byte* const to = target(piece);
    if (to == nullptr) continue;
    std::byte* const at = staged(part, piece.at);
    if (is_reduction(collective_.kind) && job_.factors[piece.array].after != 1)
      reduce::scale(at, piece.count, collective_.dtype, job_.factors[piece.array].after);
    transfer.copies.push_back({to, at, piece.count * width_});
  }
  copies_.give_slot(part.slot);
  if (transfer.copies.empty()) return Handle();
  // The result's memory may be in use until then.
  if (!std::exchange(waited_out_, true)) transfer.after = job_.after;
  return copies_.start(std::move(transfer));
}

const std::byte* StagedCollective::source(const StagedPiece& piece) const {
  if (collective_.kind == CollectiveKind::kBroadcast && comm_.rank() != collective_.root) return nullptr;
  const void* const in = job_.segments.empty() ? collective_.in : job_.segments[piece.array].in;
  return in == nullptr ? nullptr : static_cast<const std::byte*>(in) + piece.first * width_;
}

std::byte* StagedCollective::target(const StagedPiece& piece) const {
  const Segment array = job_.segments.empty() ? Segment{collective_.in, collective_.out} : job_.segments[piece.array];
  const bool is_there =
      collective_.kind == CollectiveKind::kBroadcast && comm_.rank() == collective_.root && array.in == array.out;
  return array.out == nullptr || is_there ? nullptr : static_cast<std::byte*>(array.out) + piece.first * width_;
}

std::byte* StagedCollective::staged(const Part& part, std::size_t element) const {
  return copies_.memory(part.slot) + element * width_;
}

}  // namespace xoe::engine
