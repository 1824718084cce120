#include "core/backend/shm/operation_data.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/reduce/copy.h"
#include "core/reduce/reduce.h"

namespace xoe::shm {
namespace {

// Bytes of a rank's buffers.
std::size_t footprint(const Collective& c, std::size_t element) {
  const auto in = reinterpret_cast<std::uintptr_t>(c.in), out = reinterpret_cast<std::uintptr_t>(c.out);
  const std::size_t out_bytes = c.out_count * element;
  const bool in_place = in >= out && in - out < out_bytes;
  return out_bytes + (in_place ? 0 : c.in_count * element);
}

}  // namespace

OperationData::OperationData(const Group& group) : group_(group), slots_(group) {
  const auto size = static_cast<std::size_t>(group.size());
  inputs_.resize(size);
  outputs_.resize(size);
  reduce_ins_.resize(size);
  reduce_outs_.reserve(size);
}

void OperationData::assign(const Collective& collective, std::uint32_t number) {
  call_.assign(collective);
  element_ = dtype_size(collective.dtype);
  segments_.assign(call_->segments, element_);
  slots_ = Slots(group_, number);
  // The values compared here are the same on all ranks, or their fingerprints differ. Alltoall decides rank by rank.
  const std::size_t bytes =
      (collective.kind == CollectiveKind::kAllgather ? collective.out_count : collective.in_count) * element_;
  eager_ = collective.kind != CollectiveKind::kAlltoall &&
           bytes <= (is_reduction(collective.kind) ? eager_reduce_limit(group_.size()) : kEagerCopyLimit);
  inline_ = eager_ && bytes <= kInlineBytes;
  past_cache_ = !is_reduction(collective.kind) && footprint(collective, element_) > kCachedBytes;
  first_round_ = rounds_ = 0;
}

std::size_t OperationData::offset_of(std::span<const std::size_t> counts, int rank) const noexcept {
  std::size_t offset = 0;
  for (int r = 0; r < rank; ++r) offset += counts[index(r)];
  return offset * element_;
}

// --- posting ---

void OperationData::post() {
  const int me = group_.rank();
  if (eager_) {
    if (call_->in_count != 0 && has_source(me))
      read_in(inline_ ? header(me).payload : slots_.eager(me), 0, call_->in_count);
    return;
  }
  Posted posted{};
  if (segments_.empty())
    post_offsets(posted);
  else
    post_segments(posted);
  if (call_->kind == CollectiveKind::kAlltoall) post_alltoall(posted);
  if (broadcast() && group_.context().oversubscribed()) posted.flags |= kLargePieces;
  header(me).posted = posted;
}

void OperationData::copy_own_block() {
  const int me = group_.rank();
  if (call_->kind != CollectiveKind::kAllgather && call_->kind != CollectiveKind::kAlltoall) return;
  const bool gathers = call_->kind == CollectiveKind::kAllgather;
  std::byte* const to = out() + offset_of(gathers ? call_->send_counts : call_->recv_counts, me);
  const std::byte* const from = gathers ? in() : in() + offset_of(call_->send_counts, me);
  if (to != from) copy_result(to, from, call_->send_counts[index(me)]);
}

void OperationData::post_offsets(Posted& posted) const {
  const Arena& arena = *group_.context().arena();
  const std::byte* const base = arena.mapping()->base();
  if (arena.shares(in(), call_->in_count * element_)) {
    posted.flags |= kInShared;
    posted.in_offset = static_cast<std::uint64_t>(in() - base);
  }
  if (arena.shares(out(), call_->out_count * element_)) {
    posted.flags |= kOutShared;
    posted.out_offset = static_cast<std::uint64_t>(out() - base);
  }
}

// Posts where this rank's segments lie, if peers can reach them all.
void OperationData::post_segments(Posted& posted) const {
  const Arena& arena = *group_.context().arena();
  const std::byte* const base = arena.mapping()->base();
  const auto segments = call_->segments;
  if (segments.size() > kEagerBytes / sizeof(SegmentOffsets)) return;
  auto* table = reinterpret_cast<SegmentOffsets*>(slots_.eager(group_.rank()));
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::size_t bytes = segments[i].count * element_;
    if (!arena.shares(segments[i].in, bytes) || !arena.shares(segments[i].out, bytes)) return;
    table[i] = {static_cast<std::uint64_t>(static_cast<const std::byte*>(segments[i].in) - base),
                static_cast<std::uint64_t>(static_cast<const std::byte*>(segments[i].out) - base)};
  }
  posted.flags |= kSegments;
  posted.segments_hash = segments_.hash();
}

void OperationData::post_alltoall(Posted& posted) const {
  const auto counts = call_->send_counts;
  std::byte* const slot = slots_.eager(group_.rank());
  std::memcpy(slot, counts.data(), counts.size_bytes());
  if (const std::size_t bytes = call_->in_count * element_; bytes <= kEagerCopyLimit) {
    if (bytes != 0) std::memcpy(slot + counts.size_bytes(), in(), bytes);
    posted.flags = kEager;
  }
  for (std::size_t r = 0; r < counts.size(); ++r)
    if (static_cast<int>(r) != group_.rank())
      posted.largest_block = std::max<std::uint64_t>(posted.largest_block, counts[r]);
}

// Elements [begin, end) of this rank's input.
void OperationData::read_in(std::byte* to, std::size_t begin, std::size_t end) const {
  if (segments_.empty()) {
    if (begin != end) std::memcpy(to, in() + begin * element_, (end - begin) * element_);
    return;
  }
  segments_.each(begin, end, [&](const std::byte* in, std::byte*, std::size_t at, std::size_t count) {
    std::memcpy(to + at * element_, in, count * element_);
  });
}

// Elements [begin, end) of this rank's output.
void OperationData::write_out(const std::byte* from, std::size_t begin, std::size_t end) const {
  if (segments_.empty()) {
    if (begin != end) std::memcpy(out() + begin * element_, from, (end - begin) * element_);
    return;
  }
  segments_.each(begin, end, [&](const std::byte*, std::byte* out, std::size_t at, std::size_t count) {
    std::memcpy(out, from + at * element_, count * element_);
  });
}

void OperationData::reduce(std::size_t count) {
  reduce::reduce_into(reduce_outs_, reduce_ins_, count, call_->dtype, call_->op);
}

// --- eager ---

void OperationData::finish_eager() {
  const int me = group_.rank();
  const auto reduce_at = [&](const std::byte* in, std::byte* out, std::size_t at, std::size_t count) {
    for (int s = 0; s < group_.size(); ++s) reduce_ins_[index(s)] = s == me ? in : payload(s) + at * element_;
    reduce_outs_.assign(1, out);
    reduce(count);
  };
  if (!segments_.empty()) return segments_.each(0, call_->in_count, reduce_at);
  if (is_reduction(call_->kind)) {
    if (call_->out_count == 0) return;
    const std::size_t offset = call_->kind == CollectiveKind::kReduceScatter ? offset_of(call_->send_counts, me) : 0;
    return reduce_at(in() + offset, out(), offset / element_, call_->out_count);
  }
  for (int s = 0; s < group_.size(); ++s) {
    if (s == me) continue;
    if (call_->kind == CollectiveKind::kBroadcast && s == call_->root && call_->out_count != 0)
      std::memcpy(out(), payload(s), call_->out_count * element_);
    if (call_->kind != CollectiveKind::kAllgather) continue;
    if (const std::size_t count = call_->send_counts[index(s)]; count != 0)
      std::memcpy(out() + offset_of(call_->send_counts, s), payload(s), count * element_);
  }
}

// --- planning ---

Status OperationData::plan(std::uint64_t& next_round) {
  const int me = group_.rank();
  const bool allreduce = call_->kind == CollectiveKind::kAllreduce;
  bool in_direct = true, out_direct = true;  // all inputs, all outputs lie in arenas
  uses_peers_ = false;
  segments_direct_ = !segments_.empty();
  for (int s = 0; s < group_.size(); ++s) {
    const auto r = index(s);
    const Posted& posted = header(s).posted;
    inputs_[r] = s == me                           ? in()
                 : (posted.flags & kEager) != 0    ? slots_.eager(s) + call_->send_counts.size_bytes()
                 : (posted.flags & kInShared) != 0 ? group_.address(s, posted.in_offset)
                                                   : nullptr;
    outputs_[r] = s == me ? out() : (posted.flags & kOutShared) != 0 ? group_.address(s, posted.out_offset) : nullptr;
    if ((posted.flags & (kInShared | kEager)) == 0 && has_source(s)) in_direct = false;
    if ((posted.flags & kOutShared) == 0) out_direct = false;
    if (s != me && (posted.flags & (kInShared | kOutShared)) != 0) uses_peers_ = true;
    if ((posted.flags & kSegments) == 0 || posted.segments_hash != segments_.hash()) segments_direct_ = false;
  }
  if (segments_direct_) in_direct = out_direct = uses_peers_ = true;
  staged_ = !in_direct || (allreduce && !out_direct);
  if (call_->kind == CollectiveKind::kAlltoall) XOE_TRY(check_alltoall());
  if (allreduce) {
    per_round_ = staged_ ? chunk_elements(element_) : direct_elements(element_) * index(group_.size());
    rounds_ = rounds_for(call_->in_count, per_round_);
  } else if (is_reduction(call_->kind)) {
    per_round_ = staged_ ? block_elements(element_, group_.size()) : direct_elements(element_);
    rounds_ = rounds_for(*std::ranges::max_element(call_->send_counts), per_round_);
  } else {
    plan_copies();
  }
  const bool read_in_place = (segments_direct_ || (header(me).posted.flags & kInShared) != 0) && has_source(me);
  all_use_mine_ = rounds_ != 0 && (read_in_place || (allreduce && !staged_));
  first_round_ = next_round;
  next_round += rounds_;
  return {};
}

Status OperationData::check_alltoall() const {
  for (int s = 0; s < group_.size(); ++s) {
    std::size_t sent = 0;
    std::memcpy(&sent, slots_.eager(s) + index(group_.rank()) * sizeof sent, sizeof sent);
    const std::size_t expected = call_->recv_counts[index(s)];
    if (sent != expected)
      return failure(Code::kInvalidArgument, "{} sends {} to {}, which expects {}", group_.who(s),
                     counted(static_cast<std::int64_t>(sent), "element"), group_.who(group_.rank()), expected);
  }
  return {};
}

void OperationData::plan_copies() {
  const bool alltoall = call_->kind == CollectiveKind::kAlltoall;
  const bool large_pieces = broadcast() && (header(call_->root).posted.flags & kLargePieces) != 0;
  per_round_ = !staged_      ? direct_elements(element_)
               : broadcast() ? broadcast_elements(element_, large_pieces)
               : alltoall    ? block_elements(element_, group_.size())
                             : chunk_elements(element_);
  for (int s = 0; s < group_.size(); ++s) {
    if (!has_source(s)) continue;
    std::size_t count = call_->in_count;
    if (call_->kind == CollectiveKind::kAllgather) count = call_->send_counts[index(s)];
    if (alltoall) count = header(s).posted.largest_block;
    rounds_ = std::max(rounds_, rounds_for(count, per_round_));
  }
}

// --- rounds ---

// Stages the part of this rank's input that peers read in this round.
void OperationData::pack(std::uint64_t round) {
  const int me = group_.rank();
  if ((header(me).posted.flags & (kInShared | kEager)) != 0 || !has_source(me)) return;
  std::byte* const to = chunk(me, round);
  if (call_->kind == CollectiveKind::kAllreduce) {
    const Range range = round_range(call_->in_count, per_round_, round);
    const Range mine = slice(range.size(), element_, me, group_.size());  // no peer reads it
    read_in(to, range.begin, range.begin + mine.begin);
    read_in(to + mine.end * element_, range.begin + mine.end, range.end);
    return;
  }
  if (call_->kind == CollectiveKind::kBroadcast || call_->kind == CollectiveKind::kAllgather) {
    const Range range = round_range(call_->in_count, per_round_, round);
    return read_in(to, range.begin, range.end);
  }
  for (int q = 0; q < group_.size(); ++q) {
    const Range range = round_range(call_->send_counts[index(q)], per_round_, round);
    if (q == me || range.size() == 0) continue;
    std::memcpy(to + index(q) * per_round_ * element_, in() + offset_of(call_->send_counts, q) + range.begin * element_,
                range.size() * element_);
  }
}

void OperationData::process(std::uint64_t round) {
  if (segments_direct_) return reduce_segments(round);
  if (call_->kind == CollectiveKind::kAllreduce) return reduce_slice(round);
  if (call_->kind == CollectiveKind::kReduceScatter) return reduce_block(round);
  if (broadcast()) return copy_broadcast(round);
  copy_blocks(round);
}

// Allreduce: reduces this rank's slice of the round's range to where each rank fetches it: the rank's output if that
// lies in its arena, else the chunk with its staged input, of which no other rank reads this slice.
void OperationData::reduce_slice(std::uint64_t round) {
  const Range range = round_range(call_->in_count, per_round_, round);
  const Range mine = slice(range.size(), element_, group_.rank(), group_.size());
  if (mine.size() == 0) return;
  const auto reduce_part = [&](const std::byte* own_in, std::byte* own_out, std::size_t at, std::size_t count) {
    const std::size_t offset = (range.begin + mine.begin + at) * element_;
    reduce_outs_.clear();
    for (int s = 0; s < group_.size(); ++s) {
      const auto r = index(s);
      std::byte* const staged = chunk(s, round) + (mine.begin + at) * element_;
      reduce_ins_[r] = inputs_[r] != nullptr ? inputs_[r] + offset : staged;
      reduce_outs_.push_back(outputs_[r] != nullptr ? outputs_[r] + offset : staged);
    }
    if (own_in != nullptr) {
      reduce_ins_[index(group_.rank())] = own_in;
      reduce_outs_[index(group_.rank())] = own_out;
    }
    reduce(count);
  };
  if (segments_.empty())
    reduce_part(nullptr, nullptr, 0, mine.size());
  else
    segments_.each(range.begin + mine.begin, range.begin + mine.end, reduce_part);
}

// Allreduce where every rank reaches the segments of all ranks: without a copy.
void OperationData::reduce_segments(std::uint64_t round) {
  const Range range = round_range(call_->in_count, per_round_, round);
  const Range mine = slice(range.size(), element_, group_.rank(), group_.size());
  segments_.each_offset(range.begin + mine.begin, range.begin + mine.end,
                        [&](std::size_t segment, std::size_t offset, std::size_t, std::size_t count) {
                          reduce_outs_.clear();
                          for (int s = 0; s < group_.size(); ++s) {
                            const auto* table = reinterpret_cast<const SegmentOffsets*>(slots_.eager(s));
                            reduce_ins_[index(s)] = group_.address(s, table[segment].in + offset);
                            reduce_outs_.push_back(group_.address(s, table[segment].out + offset));
                          }
                          reduce(count);
                        });
}

// Reduce-scatter: reduces this rank's block of every input.
void OperationData::reduce_block(std::uint64_t round) {
  const int me = group_.rank();
  const Range range = round_range(call_->send_counts[index(me)], per_round_, round);
  if (range.size() == 0) return;
  const std::size_t offset = offset_of(call_->send_counts, me) + range.begin * element_;
  const std::size_t staged_offset = index(me) * per_round_ * element_;
  for (int s = 0; s < group_.size(); ++s) {
    const auto r = index(s);
    reduce_ins_[r] = inputs_[r] != nullptr ? inputs_[r] + offset : chunk(s, round) + staged_offset;
  }
  reduce_outs_.assign(1, out() + range.begin * element_);
  reduce(range.size());
}

// Elements that the caller gets as they are.
void OperationData::copy_result(std::byte* to, const std::byte* from, std::size_t count) const {
  if (count == 0) return;
  if (past_cache_)
    reduce::copy_past_cache(to, from, count * element_);
  else
    std::memcpy(to, from, count * element_);
}

// Broadcast: each rank fetches the root's data, but for the root's slice where the root reaches its buffer.
void OperationData::copy_broadcast(std::uint64_t round) {
  const int me = group_.rank(), root = call_->root;
  const Range range = round_range(call_->out_count, per_round_, round);
  const Range given = slice(range.size(), element_, root, group_.size());
  const std::size_t begin = range.begin * element_;
  const std::size_t given_begin = given.begin * element_, given_end = given.end * element_;
  if (me != root) {
    const std::byte* const from = inputs_[index(root)] != nullptr ? inputs_[index(root)] + begin : chunk(root, round);
    std::byte* const to = out() + begin;
    if (!fills(root, me)) return copy_result(to, from, range.size());
    copy_result(to, from, given.begin);
    return copy_result(to + given_end, from + given_end, range.size() - given.end);
  }
  for (int step = 1; step < group_.size(); ++step) {
    const int s = (me + step) % group_.size();
    const std::size_t at = begin + given_begin;
    if (fills(me, s)) copy_result(outputs_[index(s)] + at, in() + at, given.size());
  }
}

// Allgather, alltoall: copies the peers' blocks for this rank.
void OperationData::copy_blocks(std::uint64_t round) {
  const int me = group_.rank();
  for (int step = 1; step < group_.size(); ++step) {
    const int s = (me + step) % group_.size();  // each rank begins at another peer
    const auto r = index(s);
    std::size_t count = 0;
    std::byte* to = out();
    std::size_t sender_offset = 0;  // of this rank's block in the sender's input
    std::size_t staged_offset = 0;
    if (call_->kind == CollectiveKind::kAllgather) {
      count = call_->send_counts[r];
      to += offset_of(call_->send_counts, s);
    } else {
      count = call_->recv_counts[r];
      to += offset_of(call_->recv_counts, s);
      const auto* table = reinterpret_cast<const std::size_t*>(slots_.eager(s));
      sender_offset = offset_of({table, call_->send_counts.size()}, me);
      staged_offset = index(me) * per_round_ * element_;
    }
    const Range range = round_range(count, per_round_, round);
    if (range.size() == 0) continue;
    const std::byte* const from =
        inputs_[r] != nullptr ? inputs_[r] + sender_offset + range.begin * element_ : chunk(s, round) + staged_offset;
    copy_result(to + range.begin * element_, from, range.size());
  }
}

// Staged allreduce: fetches the slices that the peers have written over this rank's staged input.
void OperationData::copy_out(std::uint64_t round) {
  const int me = group_.rank();
  if (call_->kind != CollectiveKind::kAllreduce || !staged_ || (header(me).posted.flags & kOutShared) != 0) return;
  const Range range = round_range(call_->in_count, per_round_, round);
  const Range mine = slice(range.size(), element_, me, group_.size());
  const std::byte* const from = chunk(me, round);
  write_out(from, range.begin, range.begin + mine.begin);
  write_out(from + mine.end * element_, range.begin + mine.end, range.end);
}

}  // namespace xoe::shm
