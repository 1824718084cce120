#include "core/backend/mpi/net.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "core/backend/net/buffers.h"
#include "core/base/error.h"
#include "core/base/relax.h"
#include "core/reduce/reduce.h"

namespace xoe::mpi {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kAtOnceBytes = 64 << 10;   // of all inputs; up to here every member reduces all of them
constexpr std::size_t kChunkBytes = 1 << 20;     // of one member in one round
constexpr std::size_t kStagingBytes = 32 << 20;  // of all members; MPI counts in int
constexpr std::size_t kLine = 64;

// How long a wait spins, then yields; then it sleeps, a little longer each time.
constexpr auto kSpin = microseconds(30), kYield = microseconds(2000);
constexpr long kLongestSleep = 200'000;  // ns

using net::at;
using net::copy_bytes;

Code code_of(int error) {
  int kind = MPI_ERR_OTHER;
  MPI_Error_class(error, &kind);
  if (kind == MPI_ERR_TRUNCATE || kind == MPI_ERR_COUNT) return Code::kInvalidArgument;
  return kind == MPI_ERR_NO_MEM ? Code::kResourceExhausted : Code::kPeerLost;
}

}  // namespace

MpiNet::MpiNet(std::shared_ptr<Context> context, net::Members members, MPI_Comm comm)
    : context_(std::move(context)),
      members_(std::move(members)),
      self_(members_.self),
      size_(static_cast<int>(members_.ranks.size())),
      comm_(comm),
      shards_(size_),
      ins_(members_.ranks.size()),
      stagings_(std::make_unique<std::vector<Staging>>(2)) {
  for (Staging& s : *stagings_)
    for (auto* counts : {&s.send_counts, &s.send_offsets, &s.receive_counts, &s.receive_offsets})
      counts->resize(members_.ranks.size());
}

MpiNet::~MpiNet() {
  if (cause_ || !context_->usable()) return;  // a communicator in use stays
  MPI_Comm comm = comm_;
  context_->call([&] { return MPI_Comm_free(&comm); });
}

Status MpiNet::run(const Collective& collective, Clock::time_point deadline) {
  XOE_TRY(supports(collective));
  if (cause_) return failure(*cause_);
  XOE_TRY(context_->usable());
  width_ = dtype_size(collective.dtype);
  started_ = Clock::now();
  deadline_ = deadline;
  Status status =
      aborted_.load(std::memory_order_relaxed) ? failure(Code::kUnavailable, "aborted") : dispatch(collective);
  if (status) return status;
  cause_ = Error(status.error().code(), fmt::format("{}: {}", title_of(collective), status.error().message()));
  context_->note_failure();
  [[maybe_unused]] auto* const left_to_mpi = stagings_.release();
  return failure(*cause_);
}

Status MpiNet::dispatch(const Collective& c) {
  switch (c.kind) {
    case CollectiveKind::kAllreduce:
      return c.in_count * width_ * index(size_) <= kAtOnceBytes ? allreduce_at_once(c) : reduce_shards(c, true);
    case CollectiveKind::kBroadcast: return broadcast(c);
    case CollectiveKind::kAllgather: return allgather(c);
    case CollectiveKind::kReduceScatter: return reduce_shards(c, false);
    case CollectiveKind::kAlltoall: return alltoall(c);
    case CollectiveKind::kBarrier: {
      MPI_Request& request = staging(0).request;
      XOE_TRY(start([&] { return MPI_Ibarrier(comm_, &request); }));
      return finish(request);
    }
  }
  return failure(Code::kInternal, "mpi: unknown collective {}", static_cast<int>(c.kind));
}

template <class F>
Status MpiNet::start(F&& function) {
  const int error = context_->call(function);
  if (error == MPI_SUCCESS) return {};
  return failure(code_of(error), "MPI says: {}", mpi_text(error));
}

Status MpiNet::finish(MPI_Request& request) {
  timespec nap{0, 10'000};
  Clock::time_point begin{};
  for (int turn = 0;; ++turn) {
    int done = 0;
    const int error = context_->call([&] { return MPI_Test(&request, &done, MPI_STATUS_IGNORE); });
    if (error != MPI_SUCCESS) return failure(code_of(error), "MPI says: {}", mpi_text(error));
    if (done != 0) return {};
    if (turn % 16 != 0) {
      relax(false);
      continue;
    }
    const auto now = Clock::now();
    if (aborted_.load(std::memory_order_relaxed)) return failure(Code::kUnavailable, "aborted");
    if (now >= deadline_)
      return failure(Code::kTimeout,
                     "not all of {} ranks took their part within {:.3g} s; MPI does not say who is missing", size_,
                     std::chrono::duration<double>(now - started_).count());
    if (turn == 0) begin = now;  // a wait that ends at once reads no clock
    if (now - begin < kSpin) continue;
    if (now - begin < kYield) {
      relax(true);
    } else {
      ::nanosleep(&nap, nullptr);
      nap.tv_nsec = std::min(nap.tv_nsec * 5 / 4, kLongestSleep);
    }
  }
}

std::size_t MpiNet::chunk_size() const noexcept {
  return std::max(std::min(kChunkBytes, kStagingBytes / index(size_)) / kLine * kLine, kLine) / width_;
}

MpiNet::Staging& MpiNet::staging_for(std::size_t round, std::size_t bytes) {
  Staging& s = staging(round);
  if (s.bytes < bytes) {
    s.send.reset(new std::byte[bytes]);
    s.receive.reset(new std::byte[bytes]);
    s.bytes = bytes;
  }
  return s;
}

Status MpiNet::allreduce_at_once(const Collective& c) {
  const std::size_t bytes = c.in_count * width_;
  if (bytes == 0) return {};
  Staging& s = staging_for(0, kAtOnceBytes);
  copy_bytes(s.receive.get() + index(self_) * bytes, c.in, bytes);
  XOE_TRY(start([&] {
    return MPI_Iallgather(MPI_IN_PLACE, 0, MPI_BYTE, s.receive.get(), static_cast<int>(bytes), MPI_BYTE, comm_,
                          &s.request);
  }));
  XOE_TRY(finish(s.request));
  for (int m = 0; m < size_; ++m) ins_[index(m)] = s.receive.get() + index(m) * bytes;
  void* const outs[] = {c.out};
  reduce::reduce_into(outs, ins_, c.in_count, c.dtype, c.op);
  return {};
}

// Member m reduces shard m, one chunk a round: the next chunk is in flight while this one is reduced. gather: the
// member then sends the result to all.
Status MpiNet::reduce_shards(const Collective& c, bool gather) {
  gather ? shards_.cut_evenly(c.in_count, -1, kLine / width_, chunk_size()) : shards_.cut(c.send_counts, chunk_size());
  const std::size_t rounds = shards_.rounds();
  if (rounds == 0) return {};
  std::byte* const out = static_cast<std::byte*>(c.out);
  XOE_TRY(post_exchange(c, 0));
  for (std::size_t round = 0; round < rounds; ++round) {
    if (gather && round != 0) XOE_TRY(finish_gather(out, round - 1));
    if (round + 1 < rounds) XOE_TRY(post_exchange(c, round + 1));
    XOE_TRY(finish_exchange(c, round, gather));
    if (gather) XOE_TRY(post_gather(round));
  }
  return gather ? finish_gather(out, rounds - 1) : Status();
}

Status MpiNet::post_alltoall(Staging& s) {
  return start([&] {
    return MPI_Ialltoallv(s.send.get(), s.send_counts.data(), s.send_offsets.data(), MPI_BYTE, s.receive.get(),
                          s.receive_counts.data(), s.receive_offsets.data(), MPI_BYTE, comm_, &s.request);
  });
}

Status MpiNet::post_exchange(const Collective& c, std::size_t round) {
  Staging& s = staging_for(round, index(size_) * shards_.chunk_size() * width_);
  const auto mine = shards_.chunk(self_, round);
  for (int m = 0; m < size_; ++m) {
    const auto theirs = shards_.chunk(m, round);
    const std::size_t place = index(m) * shards_.chunk_size() * width_;
    s.send_offsets[index(m)] = s.receive_offsets[index(m)] = static_cast<int>(place);
    s.send_counts[index(m)] = m == self_ ? 0 : static_cast<int>(theirs.count * width_);
    s.receive_counts[index(m)] = m == self_ ? 0 : static_cast<int>(mine.count * width_);
    if (m != self_) copy_bytes(s.send.get() + place, at(c.in, theirs.offset * width_), theirs.count * width_);
  }
  return post_alltoall(s);
}

Status MpiNet::finish_exchange(const Collective& c, std::size_t round, bool gather) {
  Staging& s = staging(round);
  XOE_TRY(finish(s.request));
  const auto mine = shards_.chunk(self_, round);
  for (int m = 0; m < size_; ++m)
    ins_[index(m)] = m == self_ ? at(c.in, mine.offset * width_) : s.receive.get() + s.receive_offsets[index(m)];
  void* const outs[] = {gather ? s.send.get() + s.send_offsets[index(self_)]
                               : at(c.out, round * shards_.chunk_size() * width_)};
  reduce::reduce_into(outs, ins_, mine.count, c.dtype, c.op);
  return {};
}

Status MpiNet::post_gather(std::size_t round) {
  Staging& s = staging(round);
  for (int m = 0; m < size_; ++m) s.send_counts[index(m)] = static_cast<int>(shards_.chunk(m, round).count * width_);
  return start([&] {
    return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, s.send.get(), s.send_counts.data(), s.send_offsets.data(),
                           MPI_BYTE, comm_, &s.request);
  });
}

Status MpiNet::finish_gather(std::byte* out, std::size_t round) {
  Staging& s = staging(round);
  XOE_TRY(finish(s.request));
  for (int m = 0; m < size_; ++m) {
    const auto piece = shards_.chunk(m, round);
    copy_bytes(out + piece.offset * width_, s.send.get() + s.send_offsets[index(m)], piece.count * width_);
  }
  return {};
}

Status MpiNet::broadcast(const Collective& c) {
  const std::size_t bytes = c.in_count * width_;
  for (std::size_t begin = 0; begin < bytes; begin += kChunkBytes) {
    const std::size_t part = std::min(kChunkBytes, bytes - begin);
    Staging& s = staging_for(0, kChunkBytes);
    if (self_ == c.root) copy_bytes(s.send.get(), at(c.in, begin), part);
    XOE_TRY(
        start([&] { return MPI_Ibcast(s.send.get(), static_cast<int>(part), MPI_BYTE, c.root, comm_, &s.request); }));
    XOE_TRY(finish(s.request));
    copy_bytes(at(c.out, begin), self_ == c.root ? at(c.in, begin) : s.send.get(), part);
  }
  return {};
}

Status MpiNet::allgather(const Collective& c) {
  shards_.cut(c.send_counts, chunk_size());
  for (std::size_t round = 0; round < shards_.rounds(); ++round) {
    Staging& s = staging_for(round, index(size_) * shards_.chunk_size() * width_);
    for (int m = 0; m < size_; ++m)
      s.send_offsets[index(m)] = static_cast<int>(index(m) * shards_.chunk_size() * width_);
    copy_bytes(s.send.get() + s.send_offsets[index(self_)], at(c.in, round * shards_.chunk_size() * width_),
               shards_.chunk(self_, round).count * width_);
    XOE_TRY(post_gather(round));
    XOE_TRY(finish_gather(static_cast<std::byte*>(c.out), round));
  }
  return {};
}

// The number of rounds follows from the largest block of all members.
Status MpiNet::alltoall(const Collective& c) {
  Staging& s = staging_for(0, kLine);
  const std::size_t largest = c.send_counts.empty() ? 0 : *std::max_element(c.send_counts.begin(), c.send_counts.end());
  const auto mine = static_cast<std::uint64_t>(largest);
  std::memcpy(s.send.get(), &mine, sizeof mine);
  XOE_TRY(
      start([&] { return MPI_Iallreduce(MPI_IN_PLACE, s.send.get(), 1, MPI_UINT64_T, MPI_MAX, comm_, &s.request); }));
  XOE_TRY(finish(s.request));
  std::uint64_t most = 0;
  std::memcpy(&most, s.send.get(), sizeof most);
  const std::size_t part = chunk_size(), rounds = (static_cast<std::size_t>(most) + part - 1) / part;
  for (std::size_t round = 0; round < rounds; ++round) XOE_TRY(alltoall_round(c, round, part));
  return {};
}

Status MpiNet::alltoall_round(const Collective& c, std::size_t round, std::size_t part) {
  Staging& s = staging_for(0, index(size_) * part * width_);
  const auto bytes_of = [&](std::size_t count) {
    return static_cast<int>((std::min(count, (round + 1) * part) - std::min(count, round * part)) * width_);
  };
  std::size_t offset = round * part;
  for (int m = 0; m < size_; ++m) {
    const std::size_t place = index(m) * part * width_;
    s.send_offsets[index(m)] = s.receive_offsets[index(m)] = static_cast<int>(place);
    s.send_counts[index(m)] = bytes_of(c.send_counts[index(m)]);
    s.receive_counts[index(m)] = bytes_of(c.recv_counts[index(m)]);
    copy_bytes(s.send.get() + place, at(c.in, offset * width_), static_cast<std::size_t>(s.send_counts[index(m)]));
    offset += c.send_counts[index(m)];
  }
  XOE_TRY(post_alltoall(s));
  XOE_TRY(finish(s.request));
  offset = round * part;
  for (int m = 0; m < size_; ++m) {
    copy_bytes(at(c.out, offset * width_), s.receive.get() + s.receive_offsets[index(m)],
               static_cast<std::size_t>(s.receive_counts[index(m)]));
    offset += c.recv_counts[index(m)];
  }
  return {};
}

}  // namespace xoe::mpi
