// Operation, the half that moves bytes: plans the rounds once all headers are there, then packs, reduces and copies.
#include <algorithm>
#include <cstring>

#include "backend/shm/operation.h"
#include "base/error.h"
#include "reduce/reduce.h"

namespace xoe::shm {

void Operation::copy_own_part() {
  const auto me = static_cast<std::size_t>(group_.rank());
  if (kind_ == CollectiveKind::kAllgather && send_counts_[me] != 0) {
    std::byte* place = out_ + table_offset(send_counts_, group_.rank());
    if (place != in_) std::memcpy(place, in_, send_counts_[me] * element_);
  }
  if (kind_ == CollectiveKind::kAlltoall && send_counts_[me] != 0)
    std::memcpy(out_ + table_offset(recv_counts_, group_.rank()), in_ + table_offset(send_counts_, group_.rank()),
                send_counts_[me] * element_);
}

// Elements [begin, end) of this rank's input.
void Operation::copy_in(std::byte* to, std::size_t begin, std::size_t end) const {
  if (pieces_.empty()) {
    if (begin != end) std::memcpy(to, in_ + begin * element_, (end - begin) * element_);
    return;
  }
  pieces_.each(begin, end, [&](const std::byte* in, std::byte*, std::size_t at, std::size_t count) {
    std::memcpy(to + at * element_, in, count * element_);
  });
}

// Elements [begin, end) of this rank's output.
void Operation::copy_result(const std::byte* from, std::size_t begin, std::size_t end) const {
  if (pieces_.empty()) {
    if (begin != end) std::memcpy(out_ + begin * element_, from, (end - begin) * element_);
    return;
  }
  pieces_.each(begin, end, [&](const std::byte*, std::byte* out, std::size_t at, std::size_t count) {
    std::memcpy(out, from + at * element_, count * element_);
  });
}

// Every rank holds all inputs: it computes its result alone.
void Operation::finish_eager() {
  if (!pieces_.empty()) {
    pieces_.each(0, in_count_, [&](const std::byte* in, std::byte* out, std::size_t at, std::size_t count) {
      for (int s = 0; s < group_.size(); ++s)
        reduce_ins_[static_cast<std::size_t>(s)] = s == group_.rank() ? in : eager_payload(s) + at * element_;
      reduce_outs_.assign(1, out);
      reduce::reduce_into(reduce_outs_, reduce_ins_, count, dtype_, op_);
    });
    return;
  }
  if (is_reduction()) {
    const std::size_t offset = kind_ == CollectiveKind::kReduceScatter ? table_offset(send_counts_, group_.rank()) : 0;
    for (int s = 0; s < group_.size(); ++s)
      reduce_ins_[static_cast<std::size_t>(s)] = (s == group_.rank() ? in_ : eager_payload(s)) + offset;
    reduce_outs_.assign(1, out_);
    if (out_count_ != 0) reduce::reduce_into(reduce_outs_, reduce_ins_, out_count_, dtype_, op_);
    return;
  }
  for (int s = 0; s < group_.size(); ++s) {
    if (s == group_.rank()) continue;
    if (kind_ == CollectiveKind::kBroadcast && s == root_ && out_count_ != 0)
      std::memcpy(out_, eager_payload(s), out_count_ * element_);
    if (kind_ == CollectiveKind::kAllgather && send_counts_[static_cast<std::size_t>(s)] != 0)
      std::memcpy(out_ + table_offset(send_counts_, s), eager_payload(s),
                  send_counts_[static_cast<std::size_t>(s)] * element_);
  }
}

Status Operation::plan_rounds(Rounds& rounds) {
  planned_ = true;
  in_direct_ = true;
  uses_peers_ = false;
  bool out_direct = true;  // all outputs lie in arenas
  for (int s = 0; s < group_.size(); ++s) {
    const auto r = static_cast<std::size_t>(s);
    const Posted& posted = header(s).posted;
    inputs_[r] = nullptr;
    if (s == group_.rank())
      inputs_[r] = in_;
    else if (posted.flags & kEager)
      inputs_[r] = eager_slot(s) + send_counts_.size() * sizeof(std::size_t);
    else if (posted.flags & kInShared)
      inputs_[r] = group_.address(s, posted.in_offset);
    if ((posted.flags & (kInShared | kEager)) == 0 && has_source(s)) in_direct_ = false;
    outputs_[r] = nullptr;
    if (s == group_.rank())
      outputs_[r] = out_;
    else if (posted.flags & kOutShared)
      outputs_[r] = group_.address(s, posted.out_offset);
    if ((posted.flags & kOutShared) == 0) out_direct = false;
    if (s != group_.rank() && (posted.flags & (kInShared | kOutShared)) != 0) uses_peers_ = true;
  }
  pieces_direct_ = !pieces_.empty();
  for (int s = 0; s < group_.size() && pieces_direct_; ++s)
    pieces_direct_ = (header(s).posted.flags & kPieces) != 0 && header(s).posted.piece == pieces_.hash();
  if (pieces_direct_) in_direct_ = out_direct = uses_peers_ = true;
  staged_ = !in_direct_ || (kind_ == CollectiveKind::kAllreduce && !out_direct);
  if (kind_ == CollectiveKind::kAlltoall) XOE_TRY(check_alltoall());
  if (is_reduction())
    plan_reduction();
  else
    plan_copies();
  const bool mine_read_in_place =
      (pieces_direct_ || (header(group_.rank()).posted.flags & kInShared) != 0) && has_source(group_.rank());
  const bool mine_written = kind_ == CollectiveKind::kAllreduce && !staged_;
  peers_use_mine_ = rounds_ != 0 && (mine_read_in_place || mine_written);
  base_ = rounds.next;
  rounds.next += rounds_;
  return {};
}

void Operation::plan_reduction() {
  if (kind_ == CollectiveKind::kAllreduce) {
    per_round_ =
        staged_ ? chunk_elements(element_) : direct_elements(element_) * static_cast<std::size_t>(group_.size());
    rounds_ = rounds_for(in_count_, per_round_);
    return;
  }
  const std::size_t largest = *std::max_element(send_counts_.begin(), send_counts_.end());
  per_round_ = staged_ ? piece_elements(element_, group_.size()) : direct_elements(element_);
  rounds_ = rounds_for(largest, per_round_);
}

void Operation::plan_copies() {
  const bool pieces = kind_ == CollectiveKind::kAlltoall;
  per_round_ = pieces ? piece_elements(element_, group_.size()) : chunk_elements(element_);
  if (!staged_) per_round_ = direct_elements(element_);
  for (int s = 0; s < group_.size(); ++s) {
    if (!has_source(s)) continue;
    std::size_t count = in_count_;
    if (kind_ == CollectiveKind::kAllgather) count = send_counts_[static_cast<std::size_t>(s)];
    if (pieces) count = header(s).posted.piece;
    rounds_ = std::max(rounds_, rounds_for(count, per_round_));
  }
}

// The chunk that this rank would pack next was `rank`'s, or read by it, kRingSlots rounds ago.
bool Operation::chunk_free(int rank) const {
  if (!staged_ || packed_ == rounds_) return true;
  const std::uint64_t round = base_ + packed_;
  return round < kRingSlots || group_.block(rank).copied.load(std::memory_order_acquire) + kRingSlots > round;
}

bool Operation::can_pack() const {
  // Where nothing is staged the headers say it all.
  if (!staged_ || packed_ == rounds_ || packed_ >= copied_ + kRingSlots) return false;
  for (int r = 0; r < group_.size(); ++r)
    if (r != group_.rank() && !chunk_free(r)) return false;
  return true;
}

bool Operation::can_process() const {
  if (processed_ == rounds_) return false;
  if (!staged_) return true;
  if (processed_ == packed_) return false;
  const std::uint64_t needed = base_ + processed_ + 1;
  if (kind_ != CollectiveKind::kBroadcast) return peers_reached(&RankBlock::packed, needed);
  return group_.rank() == root_ || group_.block(root_).packed.load(std::memory_order_acquire) >= needed;
}

bool Operation::can_copy_out() const {
  if (copied_ == processed_) return false;
  if (kind_ != CollectiveKind::kAllreduce || !staged_) return true;
  return peers_reached(&RankBlock::processed, base_ + copied_ + 1);
}

// Stages what peers read of this rank's input in this round.
void Operation::pack(std::uint64_t round) {
  const int me = group_.rank();
  if ((header(me).posted.flags & (kInShared | kEager)) != 0 || !has_source(me)) return;
  std::byte* to = chunk(me, round);
  if (kind_ == CollectiveKind::kAllreduce) {
    const Range range = round_range(in_count_, per_round_, round);
    const Range mine = slice(range.size(), element_, me, group_.size());  // read by nobody else
    copy_in(to, range.begin, range.begin + mine.begin);
    copy_in(to + mine.end * element_, range.begin + mine.end, range.end);
    return;
  }
  if (kind_ == CollectiveKind::kBroadcast || kind_ == CollectiveKind::kAllgather) {
    const Range range = round_range(in_count_, per_round_, round);
    if (range.size() != 0) std::memcpy(to, in_ + range.begin * element_, range.size() * element_);
    return;
  }
  for (int q = 0; q < group_.size(); ++q) {
    const Range range = round_range(send_counts_[static_cast<std::size_t>(q)], per_round_, round);
    if (q == me || range.size() == 0) continue;
    std::memcpy(to + static_cast<std::size_t>(q) * per_round_ * element_,
                in_ + table_offset(send_counts_, q) + range.begin * element_, range.size() * element_);
  }
}

void Operation::process(std::uint64_t round) {
  if (kind_ == CollectiveKind::kAllreduce)
    reduce_range(round);
  else if (kind_ == CollectiveKind::kReduceScatter)
    reduce_piece(round);
  else
    copy_from_peers(round);
}

// Allreduce: this rank's slice of the round's range, to where each rank picks it up: its output if that lies in its
// arena, else over its staged input, which nobody else reads.
void Operation::reduce_range(std::uint64_t round) {
  if (pieces_direct_) return reduce_pieces(round);
  const Range range = round_range(in_count_, per_round_, round);
  const Range mine = slice(range.size(), element_, group_.rank(), group_.size());
  if (mine.size() == 0) return;
  const auto reduce = [&](const std::byte* own_in, std::byte* own_out, std::size_t at, std::size_t count) {
    const std::size_t offset = (range.begin + mine.begin + at) * element_;
    reduce_outs_.clear();
    for (int s = 0; s < group_.size(); ++s) {
      const auto r = static_cast<std::size_t>(s);
      std::byte* const staged = chunk(s, round) + (mine.begin + at) * element_;
      reduce_ins_[r] = inputs_[r] != nullptr ? inputs_[r] + offset : staged;
      reduce_outs_.push_back(outputs_[r] != nullptr ? outputs_[r] + offset : staged);
    }
    if (own_in != nullptr) {
      reduce_ins_[static_cast<std::size_t>(group_.rank())] = own_in;
      reduce_outs_[static_cast<std::size_t>(group_.rank())] = own_out;
    }
    reduce::reduce_into(reduce_outs_, reduce_ins_, count, dtype_, op_);
  };
  if (pieces_.empty())
    reduce(nullptr, nullptr, 0, mine.size());
  else
    pieces_.each(range.begin + mine.begin, range.begin + mine.end, reduce);
}

// Shows where this rank's arrays lie, if peers can reach them all.
void Operation::post_pieces(Posted& posted) const {
  const Mapping& arena = *group_.member(group_.rank()).mapping;
  const auto& segments = pieces_.segments();
  if (segments.size() > kEagerBytes / sizeof(PieceOffsets)) return;
  auto* table = reinterpret_cast<PieceOffsets*>(eager_slot(group_.rank()));
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::size_t bytes = segments[i].count * element_;
    if (!arena.contains(segments[i].in, bytes) || !arena.contains(segments[i].out, bytes)) return;
    table[i] = {static_cast<std::uint64_t>(static_cast<const std::byte*>(segments[i].in) - arena.base()),
                static_cast<std::uint64_t>(static_cast<const std::byte*>(segments[i].out) - arena.base())};
  }
  posted.flags |= kPieces;
  posted.piece = pieces_.hash();
}

// All ranks' arrays are within reach: nothing is copied.
void Operation::reduce_pieces(std::uint64_t round) {
  const Range range = round_range(in_count_, per_round_, round);
  const Range mine = slice(range.size(), element_, group_.rank(), group_.size());
  pieces_.each_place(range.begin + mine.begin, range.begin + mine.end,
                     [&](std::size_t piece, std::size_t offset, std::size_t, std::size_t count) {
                       reduce_outs_.clear();
                       for (int s = 0; s < group_.size(); ++s) {
                         const auto* table = reinterpret_cast<const PieceOffsets*>(eager_slot(s));
                         reduce_ins_[static_cast<std::size_t>(s)] = group_.address(s, table[piece].in + offset);
                         reduce_outs_.push_back(group_.address(s, table[piece].out + offset));
                       }
                       reduce::reduce_into(reduce_outs_, reduce_ins_, count, dtype_, op_);
                     });
}

// Reduce-scatter: this rank's piece of every input.
void Operation::reduce_piece(std::uint64_t round) {
  const int me = group_.rank();
  const Range range = round_range(send_counts_[static_cast<std::size_t>(me)], per_round_, round);
  if (range.size() == 0) return;
  const std::size_t offset = table_offset(send_counts_, me) + range.begin * element_;
  const std::size_t staged_offset = static_cast<std::size_t>(me) * per_round_ * element_;
  for (int s = 0; s < group_.size(); ++s) {
    const auto r = static_cast<std::size_t>(s);
    reduce_ins_[r] = inputs_[r] != nullptr ? inputs_[r] + offset : chunk(s, round) + staged_offset;
  }
  reduce_outs_.assign(1, out_ + range.begin * element_);
  reduce::reduce_into(reduce_outs_, reduce_ins_, range.size(), dtype_, op_);
}

void Operation::copy_from_peers(std::uint64_t round) {
  const int me = group_.rank();
  for (int step = 1; step < group_.size(); ++step) {
    const int s = (me + step) % group_.size();  // each rank begins at another one
    const auto r = static_cast<std::size_t>(s);
    if (!has_source(s)) continue;
    std::size_t count = out_count_;
    std::byte* to = out_;
    std::size_t sender_offset = 0;  // of this rank's piece in the sender's input
    std::size_t staged_offset = 0;
    if (kind_ == CollectiveKind::kAllgather) {
      count = send_counts_[r];
      to += table_offset(send_counts_, s);
    } else if (kind_ == CollectiveKind::kAlltoall) {
      count = recv_counts_[r];
      to += table_offset(recv_counts_, s);
      const auto* table = reinterpret_cast<const std::size_t*>(eager_slot(s));
      sender_offset = table_offset({table, send_counts_.size()}, me);
      staged_offset = static_cast<std::size_t>(me) * per_round_ * element_;
    }
    const Range range = round_range(count, per_round_, round);
    if (range.size() == 0) continue;
    const std::byte* from =
        inputs_[r] != nullptr ? inputs_[r] + sender_offset + range.begin * element_ : chunk(s, round) + staged_offset;
    std::memcpy(to + range.begin * element_, from, range.size() * element_);
  }
}

// Allreduce through the ring: what the peers have written over this rank's staged input.
void Operation::copy_out(std::uint64_t round) {
  const int me = group_.rank();
  if (kind_ != CollectiveKind::kAllreduce || !staged_ || (header(me).posted.flags & kOutShared) != 0) return;
  const Range range = round_range(in_count_, per_round_, round);
  const Range mine = slice(range.size(), element_, me, group_.size());
  const std::byte* from = chunk(me, round);
  copy_result(from, range.begin, range.begin + mine.begin);
  copy_result(from + mine.end * element_, range.begin + mine.end, range.end);
}

}  // namespace xoe::shm
