#include "backend/mpi/mpi_net.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/relax.h"
#include "reduce/reduce.h"

namespace xoe::mpi {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kAtOnceBytes = 64 << 10;  // together; below, everybody reduces everything
constexpr std::size_t kSegmentBytes = 1 << 20;  // of one member in one round
constexpr std::size_t kStageBytes = 32 << 20;   // of all members; MPI counts in int
constexpr std::size_t kLine = 64;

// How long a wait spins, then yields; then it sleeps, a little longer each time.
constexpr auto kSpin = microseconds(30), kYield = microseconds(2000);
constexpr long kLongestSleep = 200'000;  // ns

std::byte* at(void* data, std::size_t bytes) { return static_cast<std::byte*>(data) + bytes; }
const std::byte* at(const void* data, std::size_t bytes) { return static_cast<const std::byte*>(data) + bytes; }

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

std::size_t index(int member) { return static_cast<std::size_t>(member); }

Code code_of(int error) {
  int kind = MPI_ERR_OTHER;
  MPI_Error_class(error, &kind);
  if (kind == MPI_ERR_TRUNCATE || kind == MPI_ERR_COUNT) return Code::kInvalidArgument;
  return kind == MPI_ERR_NO_MEM ? Code::kResourceExhausted : Code::kPeerLost;
}

}  // namespace

MpiNet::MpiNet(std::shared_ptr<Process> process, net::Members members, MPI_Comm comm)
    : process_(std::move(process)),
      members_(std::move(members)),
      self_(members_.self),
      size_(static_cast<int>(members_.ranks.size())),
      comm_(comm),
      shards_(size_),
      ins_(members_.ranks.size()),
      stages_(std::make_unique<std::vector<Stage>>(2)) {
  for (Stage& s : *stages_)
    for (auto* counts : {&s.send_counts, &s.send_places, &s.receive_counts, &s.receive_places})
      counts->resize(members_.ranks.size());
}

MpiNet::~MpiNet() {
  if (cause_ || !process_->usable()) return;  // a communicator in use stays
  MPI_Comm comm = comm_;
  process_->call([&] { return MPI_Comm_free(&comm); });
}

Status MpiNet::supports(const Collective& collective) const {
  XOE_TRY(check_host_memory(collective, "mpi"));
  if (collective.kind != CollectiveKind::kAllreduce && collective.kind != CollectiveKind::kReduceScatter) return {};
  return reduce::supports(collective.dtype, collective.op);
}

Status MpiNet::run(const Collective& collective, Clock::time_point deadline) {
  XOE_TRY(supports(collective));
  if (cause_) return failure(*cause_);
  XOE_TRY(process_->usable());
  width_ = dtype_size(collective.dtype);
  started_ = Clock::now();
  deadline_ = deadline;
  Status status =
      aborted_.load(std::memory_order_relaxed) ? failure(Code::kUnavailable, "aborted") : dispatch(collective);
  if (status) return status;
  const auto name = collective.options.name;
  const std::string title =
      fmt::format("{}{}", collective_name(collective.kind), name.empty() ? "" : fmt::format(" ({})", name));
  cause_ = Error(status.error().code(), fmt::format("{}: {}", title, status.error().message()));
  process_->note_failure();
  [[maybe_unused]] auto* const left_to_mpi = stages_.release();
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
      MPI_Request& request = stage(0).request;
      XOE_TRY(start([&] { return MPI_Ibarrier(comm_, &request); }));
      return finish(request);
    }
  }
  return failure(Code::kInternal, "mpi: unknown collective {}", static_cast<int>(c.kind));
}

template <class F>
Status MpiNet::start(F&& function) {
  const int error = process_->call(function);
  if (error == MPI_SUCCESS) return {};
  return failure(code_of(error), "MPI says: {}", mpi_text(error));
}

Status MpiNet::finish(MPI_Request& request) {
  timespec nap{0, 10'000};
  Clock::time_point begin{};
  for (int turn = 0;; ++turn) {
    int done = 0;
    const int error = process_->call([&] { return MPI_Test(&request, &done, MPI_STATUS_IGNORE); });
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
    if (turn == 0) begin = now;  // waits that are over at once need no clock
    if (now - begin < kSpin) continue;
    if (now - begin < kYield) {
      relax(true);
    } else {
      ::nanosleep(&nap, nullptr);
      nap.tv_nsec = std::min(nap.tv_nsec * 5 / 4, kLongestSleep);
    }
  }
}

std::size_t MpiNet::segment() const noexcept {
  return std::max(std::min(kSegmentBytes, kStageBytes / index(size_)) / kLine * kLine, kLine) / width_;
}

MpiNet::Stage& MpiNet::ready_stage(std::size_t round, std::size_t bytes) {
  Stage& s = stage(round);
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
  Stage& s = ready_stage(0, kAtOnceBytes);
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

// Member m reduces shard m, in rounds: while one is reduced the next one is on its way. gather: it then sends the
// result to all.
Status MpiNet::reduce_shards(const Collective& c, bool gather) {
  gather ? shards_.cut_evenly(c.in_count, -1, kLine / width_, segment()) : shards_.cut(c.send_counts, segment());
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

Status MpiNet::post_exchange(const Collective& c, std::size_t round) {
  Stage& s = ready_stage(round, index(size_) * shards_.segment() * width_);
  const auto mine = shards_.piece(self_, round);
  for (int m = 0; m < size_; ++m) {
    const auto theirs = shards_.piece(m, round);
    const std::size_t place = index(m) * shards_.segment() * width_;
    s.send_places[index(m)] = s.receive_places[index(m)] = static_cast<int>(place);
    s.send_counts[index(m)] = m == self_ ? 0 : static_cast<int>(theirs.count * width_);
    s.receive_counts[index(m)] = m == self_ ? 0 : static_cast<int>(mine.count * width_);
    if (m != self_) copy_bytes(s.send.get() + place, at(c.in, theirs.offset * width_), theirs.count * width_);
  }
  return start([&] {
    return MPI_Ialltoallv(s.send.get(), s.send_counts.data(), s.send_places.data(), MPI_BYTE, s.receive.get(),
                          s.receive_counts.data(), s.receive_places.data(), MPI_BYTE, comm_, &s.request);
  });
}

Status MpiNet::finish_exchange(const Collective& c, std::size_t round, bool gather) {
  Stage& s = stage(round);
  XOE_TRY(finish(s.request));
  const auto mine = shards_.piece(self_, round);
  for (int m = 0; m < size_; ++m)
    ins_[index(m)] = m == self_ ? at(c.in, mine.offset * width_) : s.receive.get() + s.receive_places[index(m)];
  void* const outs[] = {gather ? s.send.get() + s.send_places[index(self_)]
                               : at(c.out, round * shards_.segment() * width_)};
  reduce::reduce_into(outs, ins_, mine.count, c.dtype, c.op);
  return {};
}

Status MpiNet::post_gather(std::size_t round) {
  Stage& s = stage(round);
  for (int m = 0; m < size_; ++m) s.send_counts[index(m)] = static_cast<int>(shards_.piece(m, round).count * width_);
  return start([&] {
    return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, s.send.get(), s.send_counts.data(), s.send_places.data(),
                           MPI_BYTE, comm_, &s.request);
  });
}

Status MpiNet::finish_gather(std::byte* out, std::size_t round) {
  Stage& s = stage(round);
  XOE_TRY(finish(s.request));
  for (int m = 0; m < size_; ++m) {
    const auto piece = shards_.piece(m, round);
    copy_bytes(out + piece.offset * width_, s.send.get() + s.send_places[index(m)], piece.count * width_);
  }
  return {};
}

Status MpiNet::broadcast(const Collective& c) {
  const std::size_t bytes = c.in_count * width_;
  for (std::size_t begin = 0; begin < bytes; begin += kSegmentBytes) {
    const std::size_t part = std::min(kSegmentBytes, bytes - begin);
    Stage& s = ready_stage(0, kSegmentBytes);
    if (self_ == c.root) copy_bytes(s.send.get(), at(c.in, begin), part);
    XOE_TRY(
        start([&] { return MPI_Ibcast(s.send.get(), static_cast<int>(part), MPI_BYTE, c.root, comm_, &s.request); }));
    XOE_TRY(finish(s.request));
    copy_bytes(at(c.out, begin), self_ == c.root ? at(c.in, begin) : s.send.get(), part);
  }
  return {};
}

Status MpiNet::allgather(const Collective& c) {
  shards_.cut(c.send_counts, segment());
  for (std::size_t round = 0; round < shards_.rounds(); ++round) {
    Stage& s = ready_stage(round, index(size_) * shards_.segment() * width_);
    for (int m = 0; m < size_; ++m) s.send_places[index(m)] = static_cast<int>(index(m) * shards_.segment() * width_);
    copy_bytes(s.send.get() + s.send_places[index(self_)], at(c.in, round * shards_.segment() * width_),
               shards_.piece(self_, round).count * width_);
    XOE_TRY(post_gather(round));
    XOE_TRY(finish_gather(static_cast<std::byte*>(c.out), round));
  }
  return {};
}

// How many rounds it takes is known when everybody has told its largest part.
Status MpiNet::alltoall(const Collective& c) {
  Stage& s = ready_stage(0, kLine);
  const std::size_t largest = c.send_counts.empty() ? 0 : *std::max_element(c.send_counts.begin(), c.send_counts.end());
  const auto mine = static_cast<std::uint64_t>(largest);
  std::memcpy(s.send.get(), &mine, sizeof mine);
  XOE_TRY(
      start([&] { return MPI_Iallreduce(MPI_IN_PLACE, s.send.get(), 1, MPI_UINT64_T, MPI_MAX, comm_, &s.request); }));
  XOE_TRY(finish(s.request));
  std::uint64_t everybodys = 0;
  std::memcpy(&everybodys, s.send.get(), sizeof everybodys);
  const std::size_t part = segment(), rounds = (static_cast<std::size_t>(everybodys) + part - 1) / part;
  for (std::size_t round = 0; round < rounds; ++round) XOE_TRY(alltoall_round(c, round, part));
  return {};
}

Status MpiNet::alltoall_round(const Collective& c, std::size_t round, std::size_t part) {
  Stage& s = ready_stage(0, index(size_) * part * width_);
  const auto bytes_of = [&](std::size_t count) {
    return static_cast<int>((std::min(count, (round + 1) * part) - std::min(count, round * part)) * width_);
  };
  std::size_t offset = round * part;
  for (int m = 0; m < size_; ++m) {
    const std::size_t place = index(m) * part * width_;
    s.send_places[index(m)] = s.receive_places[index(m)] = static_cast<int>(place);
    s.send_counts[index(m)] = bytes_of(c.send_counts[index(m)]);
    s.receive_counts[index(m)] = bytes_of(c.recv_counts[index(m)]);
    copy_bytes(s.send.get() + place, at(c.in, offset * width_), static_cast<std::size_t>(s.send_counts[index(m)]));
    offset += c.send_counts[index(m)];
  }
  XOE_TRY(start([&] {
    return MPI_Ialltoallv(s.send.get(), s.send_counts.data(), s.send_places.data(), MPI_BYTE, s.receive.get(),
                          s.receive_counts.data(), s.receive_places.data(), MPI_BYTE, comm_, &s.request);
  }));
  XOE_TRY(finish(s.request));
  offset = round * part;
  for (int m = 0; m < size_; ++m) {
    copy_bytes(at(c.out, offset * width_), s.receive.get() + s.receive_places[index(m)],
               static_cast<std::size_t>(s.receive_counts[index(m)]));
    offset += c.recv_counts[index(m)];
  }
  return {};
}

}  // namespace xoe::mpi
