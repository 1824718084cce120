#include "core/backend/gloo/net.h"

#include <algorithm>

#include "core/backend/gloo/sigpipe_guard.h"
#include "core/backend/net/buffers.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/reduce/reduce.h"

namespace xoe::gloo {
namespace {

// Measured over loopback with xoe_bench_gloo: up to this many bytes to send, one exchange of all inputs is faster than
// an exchange of shards and one of results.
constexpr std::size_t kAtOnceBytes = 64 << 10;
// A shard is sent in chunks of this size: one is reduced while the next is in flight. Smaller chunks wake threads more
// often than they overlap.
constexpr std::size_t kChunkBytes = 2 << 20;
constexpr std::size_t kInboxBytes = 16 << 20;  // of a round, where there are many members
constexpr std::size_t kLine = 64;

// Members that called different collectives wait for different slots: a timeout, instead of wrong bytes.
std::uint64_t signature(const Collective& c, std::uint64_t turn) {
  std::uint64_t sum = mix(turn + 1) ^ static_cast<std::uint64_t>(c.kind) ^ static_cast<std::uint64_t>(c.dtype) << 8 ^
                      static_cast<std::uint64_t>(c.op) << 16 ^ static_cast<std::uint64_t>(c.root) << 32;
  if (c.kind == CollectiveKind::kAllreduce || c.kind == CollectiveKind::kBroadcast) sum = mix(sum + c.in_count);
  if (c.kind == CollectiveKind::kAllgather || c.kind == CollectiveKind::kReduceScatter)
    for (const std::size_t count : c.send_counts) sum = mix(sum + count + 1);
  return mix(sum);
}

// The slot of a collective: the highest bit is set, the lowest four are for its steps.
constexpr std::uint64_t make_slot(std::uint64_t signature) noexcept {
  return std::uint64_t{1} << 63 | (signature & ~std::uint64_t{15});
}

constexpr std::uint64_t kReduceStep = 0, kGatherStep = 1;

using net::at;
using net::copy_bytes;
using net::sum_before;

}  // namespace

GlooNet::GlooNet(net::Members members, std::unique_ptr<Mesh> mesh)
    : members_(std::move(members)),
      self_(members_.self),
      size_(static_cast<int>(members_.ranks.size())),
      mesh_(std::move(mesh)),
      shards_(size_),
      ins_(members_.ranks.size()),
      sent_(members_.ranks.size()),
      received_(members_.ranks.size()) {}

Status GlooNet::run(const Collective& collective, Clock::time_point deadline) {
  XOE_TRY(supports(collective));
  width_ = dtype_size(collective.dtype);
  slot_ = make_slot(signature(collective, turn_++));
  if (size_ == 1) return run_alone(collective);
  SigpipeGuard guard;
  Status status = mesh_->enter(deadline);
  if (status) status = dispatch(collective);
  const std::string title = status ? std::string() : title_of(collective);
  status = mesh_->leave(std::move(status), title);
  if (!status) guard.may_be_pending();
  return status;
}

void GlooNet::abort() noexcept {
  aborted_.store(true, std::memory_order_relaxed);
  if (mesh_) mesh_->abort();
}

Status GlooNet::dispatch(const Collective& c) {
  const bool at_once = c.in_count * width_ <= kAtOnceBytes / index(size_ - 1);
  switch (c.kind) {
    case CollectiveKind::kAllreduce: return at_once ? allreduce_at_once(c) : reduce_shards(c, true);
    case CollectiveKind::kBroadcast: return size_ == 2 || at_once ? broadcast_at_once(c) : broadcast_in_shards(c);
    case CollectiveKind::kAllgather: return allgather(c);
    case CollectiveKind::kReduceScatter: return reduce_shards(c, false);
    case CollectiveKind::kAlltoall: return alltoall(c);
    case CollectiveKind::kBarrier: return barrier();
  }
  return failure(Code::kInternal, "gloo: unknown collective {}", static_cast<int>(c.kind));
}

Status GlooNet::run_alone(const Collective& c) const {
  if (aborted_.load(std::memory_order_relaxed))
    return failure(Code::kUnavailable, "{}: aborted", collective_name(c.kind));
  if (is_reduction(c.kind)) {
    void* const outs[] = {c.out};
    const void* const ins[] = {c.in};
    reduce::reduce_into(outs, ins, c.in_count, c.dtype, c.op);
  } else {
    copy_bytes(c.out, c.in, c.in_count * width_);
  }
  return {};
}

std::size_t GlooNet::chunk_size() const noexcept {
  return std::min(kChunkBytes, kInboxBytes / index(size_) / kLine * kLine) / width_;
}

std::byte* GlooNet::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_.reset(new std::byte[bytes]);
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

std::byte* GlooNet::inbox(int m, std::size_t round) noexcept {
  const int others = size_ - 1, place = (m - self_ + size_) % size_ - 1;
  return scratch_.get() + (round % 2 * index(others) + index(place)) * shards_.chunk_size() * width_;
}

Status GlooNet::finish(Channel channel) {
  for (int distance = 1; distance < size_; ++distance) {
    const int m = member_at(distance);
    for (auto& left = received_[index(m)]; left != 0; --left) XOE_TRY(mesh_->wait_received(m, channel));
    for (auto& left = sent_[index(m)]; left != 0; --left) XOE_TRY(mesh_->wait_sent(m, channel));
  }
  return {};
}

// Every member sends its input to all and reduces all inputs: one exchange.
Status GlooNet::allreduce_at_once(const Collective& c) {
  const std::size_t bytes = c.in_count * width_;
  if (bytes == 0) return {};
  std::byte* inbox = scratch(bytes * index(size_ - 1));
  for (int m = 0; m < size_; ++m) {
    if (m == self_) continue;
    ins_[index(m)] = inbox;
    XOE_TRY(mesh_->receive(m, kFirstChannel, slot_, inbox, bytes));
    inbox += bytes;
  }
  ins_[index(self_)] = c.in;
  for (int distance = 1; distance < size_; ++distance)
    XOE_TRY(mesh_->send(member_at(distance), kFirstChannel, slot_, c.in, bytes));
  for (int m = 0; m < size_; ++m) {
    const auto i = index(m);
    received_[i] = sent_[i] = m != self_;
  }
  XOE_TRY(finish(kFirstChannel));
  void* const outs[] = {c.out};
  reduce::reduce_into(outs, ins_, c.in_count, c.dtype, c.op);
  return {};
}

// Member m reduces shard m, one chunk a round: the next chunk is in flight while this one is reduced. gather: the
// member then sends the result to all.
Status GlooNet::reduce_shards(const Collective& c, bool gather) {
  gather ? shards_.cut_evenly(c.in_count, -1, kLine / width_, chunk_size()) : shards_.cut(c.send_counts, chunk_size());
  if (shards_.rounds() == 0) return {};
  scratch(2 * index(size_ - 1) * shards_.chunk_size() * width_);
  std::byte* const out = static_cast<std::byte*>(c.out);
  XOE_TRY(post_reduce(c, 0));
  for (std::size_t round = 0; round < shards_.rounds(); ++round) {
    if (round + 1 < shards_.rounds()) XOE_TRY(post_reduce(c, round + 1));
    const std::size_t place = gather ? chunk(self_, round).offset : round * shards_.chunk_size();
    XOE_TRY(finish_reduce(c, round, out + place * width_));
    if (gather) XOE_TRY(post_gather(out, round));
  }
  return gather ? finish(kSecondChannel) : Status();
}

Status GlooNet::post_reduce(const Collective& c, std::size_t round) {
  if (const Chunk mine = chunk(self_, round); mine.count != 0)
    for (int distance = 1; distance < size_; ++distance)
      XOE_TRY(mesh_->receive(member_at(distance), kFirstChannel, slot_ + kReduceStep, inbox(member_at(distance), round),
                             mine.count * width_));
  for (int distance = 1; distance < size_; ++distance) {
    const Chunk theirs = chunk(member_at(distance), round);
    if (theirs.count != 0)
      XOE_TRY(mesh_->send(member_at(distance), kFirstChannel, slot_ + kReduceStep, at(c.in, theirs.offset * width_),
                          theirs.count * width_));
  }
  return {};
}

// Waits for the sends too: in place, the results of other members overwrite the data that was sent.
Status GlooNet::finish_reduce(const Collective& c, std::size_t round, void* out) {
  const Chunk mine = chunk(self_, round);
  for (int m = 0; m < size_; ++m) {
    const auto i = index(m);
    received_[i] = m != self_ && mine.count != 0;
    sent_[i] = m != self_ && chunk(m, round).count != 0;
    ins_[i] = m == self_ ? at(c.in, mine.offset * width_) : inbox(m, round);
  }
  XOE_TRY(finish(kFirstChannel));
  void* const outs[] = {out};
  reduce::reduce_into(outs, ins_, mine.count, c.dtype, c.op);
  return {};
}

// finish_reduce() leaves 0 in received_ and sent_; here they count all rounds.
Status GlooNet::post_gather(std::byte* out, std::size_t round) {
  const Chunk mine = chunk(self_, round);
  for (int distance = 1; distance < size_; ++distance) {
    const int m = member_at(distance);
    const Chunk theirs = chunk(m, round);
    if (theirs.count != 0)
      XOE_TRY(
          mesh_->receive(m, kSecondChannel, slot_ + kGatherStep, out + theirs.offset * width_, theirs.count * width_));
    if (mine.count != 0)
      XOE_TRY(mesh_->send(m, kSecondChannel, slot_ + kGatherStep, out + mine.offset * width_, mine.count * width_));
  }
  if (round + 1 < shards_.rounds()) return {};
  for (int m = 0; m < size_; ++m) {
    received_[index(m)] = m == self_ ? 0 : shards_.chunks(m);
    sent_[index(m)] = m == self_ ? 0 : shards_.chunks(self_);
  }
  return {};
}

Status GlooNet::broadcast_at_once(const Collective& c) {
  const std::size_t bytes = c.in_count * width_;
  if (bytes == 0) return {};
  if (self_ != c.root) {
    XOE_TRY(mesh_->receive(c.root, kFirstChannel, slot_, c.out, bytes));
    return mesh_->wait_received(c.root, kFirstChannel);
  }
  for (int distance = 1; distance < size_; ++distance)
    XOE_TRY(mesh_->send(member_at(distance), kFirstChannel, slot_, c.in, bytes));
  for (int distance = 1; distance < size_; ++distance) XOE_TRY(mesh_->wait_sent(member_at(distance), kFirstChannel));
  copy_bytes(c.out, c.in, bytes);
  return {};
}

// Each byte leaves the root once: every other member receives a shard and forwards it to the rest.
Status GlooNet::broadcast_in_shards(const Collective& c) {
  shards_.cut_evenly(c.in_count, c.root, kLine / width_, chunk_size());
  const bool is_root = self_ == c.root;
  std::byte* const out = static_cast<std::byte*>(c.out);
  for (std::size_t round = 0; !is_root && round < shards_.rounds(); ++round) {
    for (int m = 0; m < size_; ++m) {
      const Chunk part = chunk(m, round);
      if (part.count == 0) continue;
      XOE_TRY(mesh_->receive(m == self_ ? c.root : m, m == self_ ? kFirstChannel : kSecondChannel,
                             slot_ + (m == self_ ? 0 : 1), out + part.offset * width_, part.count * width_));
      if (m != self_) ++received_[index(m)];
    }
  }
  for (std::size_t round = 0; round < shards_.rounds(); ++round) {
    const Chunk mine = chunk(self_, round);
    if (!is_root && mine.count != 0) XOE_TRY(mesh_->wait_received(c.root, kFirstChannel));
    for (int distance = 1; distance < size_; ++distance) {
      const int m = member_at(distance);
      const Chunk part = is_root ? chunk(m, round) : mine;
      if (m == c.root || part.count == 0) continue;
      const void* const from = is_root ? at(c.in, part.offset * width_) : out + part.offset * width_;
      XOE_TRY(mesh_->send(m, is_root ? kFirstChannel : kSecondChannel, slot_ + (is_root ? 0 : 1), from,
                          part.count * width_));
      ++sent_[index(m)];
    }
  }
  if (is_root) copy_bytes(c.out, c.in, c.in_count * width_);
  return finish(is_root ? kFirstChannel : kSecondChannel);
}

Status GlooNet::allgather(const Collective& c) {
  const auto counts = c.send_counts;
  const auto bytes = [&](int m) { return counts[index(m)] * width_; };
  for (int distance = 1; distance < size_; ++distance) {
    const int m = member_at(size_ - distance);
    received_[index(m)] = bytes(m) != 0;
    sent_[index(m)] = bytes(self_) != 0;
    if (bytes(m) != 0)
      XOE_TRY(mesh_->receive(m, kFirstChannel, slot_, at(c.out, sum_before(counts, m) * width_), bytes(m)));
  }
  for (int distance = 1; distance < size_ && bytes(self_) != 0; ++distance)
    XOE_TRY(mesh_->send(member_at(distance), kFirstChannel, slot_, c.in, bytes(self_)));
  copy_bytes(at(c.out, sum_before(counts, self_) * width_), c.in, bytes(self_));
  return finish(kFirstChannel);
}

Status GlooNet::alltoall(const Collective& c) {
  // Only the two members of a pair know how much they move, so the count is in the pair's slot.
  const auto slot = [&](std::size_t bytes) { return make_slot(mix(slot_ + bytes)); };
  std::size_t place = 0;
  for (int m = 0; m < size_; ++m) {
    const std::size_t bytes = c.recv_counts[index(m)] * width_;
    received_[index(m)] = m != self_ && bytes != 0;
    if (m != self_ && bytes != 0) XOE_TRY(mesh_->receive(m, kFirstChannel, slot(bytes), at(c.out, place), bytes));
    place += bytes;
  }
  for (int distance = 1; distance < size_; ++distance) {
    const int m = member_at(distance);
    const std::size_t bytes = c.send_counts[index(m)] * width_;
    sent_[index(m)] = bytes != 0;
    if (bytes != 0)
      XOE_TRY(mesh_->send(m, kFirstChannel, slot(bytes), at(c.in, sum_before(c.send_counts, m) * width_), bytes));
  }
  copy_bytes(at(c.out, sum_before(c.recv_counts, self_) * width_), at(c.in, sum_before(c.send_counts, self_) * width_),
             std::min(c.send_counts[index(self_)], c.recv_counts[index(self_)]) * width_);
  return finish(kFirstChannel);
}

// Dissemination (Hensgen, Finkel, Manber, 1988): after step k each member knows of the 2^k members before it.
Status GlooNet::barrier() {
  for (int distance = 1; distance < size_; distance *= 2) {
    XOE_TRY(mesh_->receive(member_at(size_ - distance), kFirstChannel, slot_, nullptr, 0));
    XOE_TRY(mesh_->send(member_at(distance), kFirstChannel, slot_, nullptr, 0));
    XOE_TRY(mesh_->wait_received(member_at(size_ - distance), kFirstChannel));
    XOE_TRY(mesh_->wait_sent(member_at(distance), kFirstChannel));
  }
  return {};
}

}  // namespace xoe::gloo
