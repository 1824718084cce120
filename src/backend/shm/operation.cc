#include "backend/shm/operation.h"

#include <algorithm>
#include <cstring>

#include "backend/shm/describe.h"
#include "base/error.h"

namespace xoe::shm {

Operation::Operation(const Group& group) : group_(group), slots_(group) {
  const auto size = static_cast<std::size_t>(group.size());
  inputs_.resize(size);
  outputs_.resize(size);
  reduce_ins_.resize(size);
  reduce_outs_.reserve(size);
}

void Operation::begin(const Collective& collective, std::uint32_t number) {
  kind_ = collective.kind;
  dtype_ = collective.dtype;
  op_ = collective.op;
  root_ = collective.root;
  element_ = dtype_size(dtype_);
  in_ = static_cast<const std::byte*>(collective.in);
  out_ = static_cast<std::byte*>(collective.out);
  in_count_ = collective.in_count;
  out_count_ = collective.out_count;
  pieces_.assign(collective.segments, element_);
  send_counts_.assign(collective.send_counts.begin(), collective.send_counts.end());
  recv_counts_.assign(collective.recv_counts.begin(), collective.recv_counts.end());
  name_.assign(collective.options.name);
  number_ = number;
  slots_ = Slots(group_, number);
  // What is compared here is the same on all ranks, or their signatures differ; alltoall decides rank by rank.
  std::size_t bytes = in_count_ * element_;
  if (kind_ == CollectiveKind::kAllgather) bytes = out_count_ * element_;
  eager_ = kind_ != CollectiveKind::kAlltoall &&
           bytes <= (is_reduction() ? eager_reduce_limit(group_.size()) : kEagerCopyLimit);
  inline_ = eager_ && bytes <= kInlineBytes;
  posted_ = planned_ = drained_ = done_ = false;
  headers_seen_ = 0;
  base_ = rounds_ = packed_ = processed_ = copied_ = 0;
}

void Operation::begin_posted(const Collective& collective, std::uint32_t number, std::uint64_t flag) {
  begin(collective, number);
  flag_ = flag;
  posted_ = true;
}

bool Operation::has_source(int rank) const noexcept { return kind_ != CollectiveKind::kBroadcast || rank == root_; }

std::size_t Operation::table_offset(std::span<const std::size_t> counts, int rank) const noexcept {
  std::size_t offset = 0;
  for (int r = 0; r < rank; ++r) offset += counts[static_cast<std::size_t>(r)];
  return offset * element_;
}

void Operation::post() {
  posted_ = true;
  copy_own_part();
  HeaderSlot& mine = header(group_.rank());
  Description& description = slots_.description(group_.rank());
  describe(description, {.kind = kind_,
                         .dtype = dtype_,
                         .op = op_,
                         .root = root_,
                         .in_count = in_count_,
                         .send_counts = send_counts_,
                         .options = {.name = name_}});
  flag_ = (static_cast<std::uint64_t>(number_) << 32) | signature(description);
  const std::size_t bytes = in_count_ * element_;
  if (eager_) {
    if (bytes != 0 && has_source(group_.rank()))
      copy_in(inline_ ? mine.payload : eager_slot(group_.rank()), 0, in_count_);
  } else {
    const Mapping& arena = *group_.member(group_.rank()).mapping;
    Posted posted{};
    if (pieces_.empty() && arena.contains(in_, bytes)) {
      posted.flags |= kInShared;
      posted.in_offset = static_cast<std::uint64_t>(in_ - arena.base());
    }
    if (pieces_.empty() && arena.contains(out_, out_count_ * element_)) {
      posted.flags |= kOutShared;
      posted.out_offset = static_cast<std::uint64_t>(out_ - arena.base());
    }
    if (!pieces_.empty()) post_pieces(posted);
    if (kind_ == CollectiveKind::kAlltoall) {
      std::byte* slot = eager_slot(group_.rank());
      const std::size_t table = send_counts_.size() * sizeof(std::size_t);
      std::memcpy(slot, send_counts_.data(), table);
      if (bytes <= kEagerCopyLimit) {
        if (bytes != 0) std::memcpy(slot + table, in_, bytes);
        posted.flags = kEager;
      }
      for (std::size_t r = 0; r < send_counts_.size(); ++r)
        if (static_cast<int>(r) != group_.rank()) posted.piece = std::max<std::uint64_t>(posted.piece, send_counts_[r]);
    }
    mine.posted = posted;
  }
  mine.flag.store(flag_, std::memory_order_release);
  group_.bells().publish();
}

bool Operation::headers_ready(Status& status) {
  for (; headers_seen_ < group_.size(); ++headers_seen_) {
    const std::uint64_t flag = header(headers_seen_).flag.load(std::memory_order_acquire);
    if (flag == flag_) [[likely]]
      continue;
    if (static_cast<std::uint32_t>(flag >> 32) == number_) status = mismatch(headers_seen_);
    return false;
  }
  return true;
}

Status Operation::mismatch(int rank) const {
  return failure(Code::kInvalidArgument, "{}: ranks disagree: rank {} (pid {}) called {}, rank {} (pid {}) called {}",
                 title(), group_.job_rank(group_.rank()), group_.member(group_.rank()).pid,
                 to_text(slots_.description(group_.rank())), group_.job_rank(rank), group_.member(rank).pid,
                 to_text(slots_.description(rank)));
}

Status Operation::check_alltoall() const {
  for (int s = 0; s < group_.size(); ++s) {
    std::size_t sent = 0;
    std::memcpy(&sent, eager_slot(s) + static_cast<std::size_t>(group_.rank()) * sizeof sent, sizeof sent);
    const std::size_t expected = recv_counts_[static_cast<std::size_t>(s)];
    if (sent != expected)
      return failure(Code::kInvalidArgument,
                     "{}: rank {} (pid {}) sends {} elements to rank {} (pid {}), which expects {}", title(),
                     group_.job_rank(s), group_.member(s).pid, sent, group_.job_rank(group_.rank()),
                     group_.member(group_.rank()).pid, expected);
  }
  return {};
}

Status Operation::advance(Rounds& rounds) {
  if (done_ || !posted_) return {};
  Status status;
  if (!headers_ready(status)) return status;
  if (eager_ || group_.size() == 1) {
    finish_eager();
    drained_ = done_ = true;
    return {};
  }
  if (!planned_) XOE_TRY(plan_rounds(rounds));
  RankBlock& mine = group_.own();
  while (!drained_) {
    bool moved = false;
    if (can_pack()) {
      pack(packed_++);
      mine.packed.store(base_ + packed_, std::memory_order_release);
      group_.bells().publish();
      moved = true;
    }
    if (can_process()) {
      if (uses_peers_ && !group_.enter_buffers()) return {};
      process(processed_++);
      if (uses_peers_) group_.leave_buffers();
      mine.processed.store(base_ + processed_, std::memory_order_release);
      group_.bells().publish();
      moved = true;
    }
    if (can_copy_out()) {
      copy_out(copied_++);
      mine.copied.store(base_ + copied_, std::memory_order_release);
      if (staged_) group_.bells().publish();
      moved = true;
    }
    drained_ = copied_ == rounds_;
    if (!moved && !drained_) return {};
  }
  // A later operation's rounds count on from here, also where this one had nothing to stage.
  if (packed_ != rounds_) {
    packed_ = rounds_;
    mine.packed.store(base_ + rounds_, std::memory_order_release);
    group_.bells().publish();
  }
  done_ = !peers_use_mine_ || peers_reached(&RankBlock::processed, base_ + rounds_);
  return {};
}

bool Operation::peers_reached(std::atomic<std::uint64_t> RankBlock::*counter, std::uint64_t value) const {
  for (int r = 0; r < group_.size(); ++r)
    if (r != group_.rank() && (group_.block(r).*counter).load(std::memory_order_acquire) < value) return false;
  return true;
}

std::vector<int> Operation::waiting_for() const {
  std::vector<int> ranks;
  for (int r = 0; r < group_.size(); ++r) {
    if (r == group_.rank()) continue;
    if (posted_ && !planned_) {
      if (header(r).flag.load(std::memory_order_acquire) != flag_) ranks.push_back(r);
    } else if (posted_) {
      const RankBlock& block = group_.block(r);
      const std::uint64_t needed = base_ + (drained_ ? rounds_ : copied_ + 1);
      if (block.processed.load(std::memory_order_acquire) < needed || !chunk_free(r)) ranks.push_back(r);
    } else {
      // The slots of an earlier operation are still in use by those who have not completed it.
      const auto completed = group_.block(r).done.load(std::memory_order_acquire);
      if (static_cast<std::int32_t>(number_ - completed) > kEagerSlots) ranks.push_back(r);
    }
  }
  return ranks;
}

std::string Operation::title() const {
  return name_.empty() ? fmt::format("{} #{}", collective_name(kind_), number_)
                       : fmt::format("{} #{} ({})", collective_name(kind_), number_, name_);
}

}  // namespace xoe::shm
