// Where the ranks of a host agree without messages: a table of tensors in memory that they share. A rank marks a tensor
// as ready there; the rank whose mark completes the tensor adds it to a log.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/negotiate/op_descriptor.h"
#include "core/engine/negotiate/sealed_log.h"
#include "core/engine/negotiate/shared_layout.h"
#include "xoe/engine.h"
#include "xoe/status.h"

namespace xoe::engine {

inline constexpr std::size_t kBlockedNameBytes = 64;
inline constexpr std::size_t kBlockedRanks = 512;
inline constexpr std::size_t kShownNameBytes = 192;  // names are cut to this length where they are shown
inline constexpr std::size_t kShownTextBytes = 192;  // and descriptions

// One rank's submission of one tensor. The rank writes it before it arrives; others read it once the tensor is
// complete.
struct alignas(64) RankSubmission {
  std::atomic<std::uint32_t> generation;  // 1 + the generation of the entry for which the rank has arrived
  std::uint32_t text_length;
  std::int64_t arrived_ns;  // of the steady clock
  std::uint64_t signature;  // hash of all that ranks must agree on
  OpDescriptor op;
  TensorSize sizes[kListedTensors];  // of the first tensors
  char text[kShownTextBytes];        // a description for people

  std::string_view description() const noexcept { return {text, text_length}; }
};
static_assert(sizeof(RankSubmission) == 512 - 64);

struct alignas(64) TableEntry {
  std::atomic<std::uint64_t> state;  // version:24 (odd: being rewritten), generation:24, arrivals:16
  std::atomic<std::uint64_t> hashes[2];
  std::atomic<std::uint64_t> last_end;  // the log's end after this entry's last line
  std::atomic<std::uint32_t> name_length;
  std::atomic<std::uint32_t> is_cut;  // the name is longer than what is shown
  std::atomic<char> name[kShownNameBytes];
};

// The state that a rank publishes to the others.
struct alignas(64) RankStatus {
  std::atomic<std::uint64_t> completed;  // the rank needs no line of the log before this position any more
  std::atomic<std::uint32_t> joined;
  // In the table of the world: what a thread of this rank waits for. sequence: odd while it is written.
  std::atomic<std::uint32_t> sequence;
  std::atomic<std::int32_t> blocked_set;
  // 1 + the entry of the rank's last submission; 0: none. Stored with release: the entry may lie in a new segment.
  std::atomic<std::int32_t> last_entry;
  // A bit for each world rank without which the wait cannot end; none: no wait. Ranks beyond are not shown.
  std::atomic<std::uint64_t> blocked_ranks[kBlockedRanks / 64];
  std::atomic<char> blocked_name[kBlockedNameBytes];
};

struct TableHeader;

// INVARIANTS
//
// 1. The state of an entry is one word, which changes by compare-exchange only.
// 2. A rank writes its submission for the entry's generation, marks it with that generation (release), and then counts
//    itself in the state. One rank moves the state on to the next generation, with no arrivals, and that rank adds the
//    line to the log: the last one to arrive or, where ranks have joined, any rank that finds the mark of every rank
//    that has not. So each generation is logged once.
// 3. Submissions lie twice, by the parity of the generation: a rank cannot be two generations ahead of another, since
//    each generation needs the other's arrival. A submission stays as it is until its rank has completed the line.
// 4. An entry passes to another name only while it has no arrivals and all ranks have completed its last line. The rank
//    that takes it holds the table's lock and makes the version odd until the name is written; a late arrival for the
//    old name finds another version and looks the name up again. A new name gets a generation of its own, so that marks
//    for the old name count for nothing.
// 5. last_end is beyond any position from the first arrival on until the line's position is known, and is stored before
//    the line can be read: a later generation's mark cannot be overwritten by that of an earlier one.
// 6. Only making entries takes the lock. A rank that dies with it is found out by those that wait (find's `gave_up`).
// 7. Where both buckets of a name are full of operations under way, the rank that holds the lock doubles the table: it
//    adds a segment in a block of its own memory, and an arc to each log first, and then counts the segment. Segments
//    stay, and a name lies in one entry of one segment.
//
// Thread safety: any thread, except that one rank calls join() once until all have joined.
class ReadinessTable {
 public:
  // memory: zero at first, the same on all ranks of the host. blocks: outlives this; for entries beyond the capacity.
  // rank: this one among them. set_ranks: their ranks in the process set. complete: gets a line for each tensor that is
  // complete on this host. log: what ranks run. Where they differ, the host's leader adds lines to `log` with
  // log_line().
  ReadinessTable(SharedLayout& memory, HostBlocks& blocks, int capacity, int rank, std::vector<int> set_ranks,
                 LogRing complete, LogRing log);
  // The number of entries that a table of this capacity has at first.
  static int rounded(int capacity);

  int capacity() const noexcept { return capacity_; }
  // What it has now.
  int entries() const noexcept { return capacity_ << growths(); }
  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  int set_rank(int rank) const noexcept { return set_ranks_[static_cast<std::size_t>(rank)]; }

  // An entry, valid until it passes to another name, which arrive() notices.
  struct EntryRef {
    int entry = -1;
    std::uint32_t version = 0;
  };
  // Finds or makes the entry of a name. Asks `gave_up` now and then while another rank is making entries, and ends with
  // `peer_lost` if that returns true. `resource_exhausted`: no memory for more entries.
  Result<EntryRef> find(std::string_view name, const std::function<bool()>& gave_up);

  struct Arrival {
    std::uint64_t signature = 0;
    std::int64_t now_ns = 0;  // of the steady clock
    OpDescriptor op;
    std::span<const TensorSize> sizes;
    std::function<std::string()> text;  // called when the signature and the sizes are not those of the last time
  };
  // Marks the tensor as ready on this rank, after setting `generation` to the one that its line will have. False: the
  // entry has passed to another name.
  bool arrive(EntryRef ref, const Arrival& arrival, std::atomic<std::uint8_t>& generation);

  // This rank is out of data: it counts as ready for everything until all have joined.
  void join();

  // For an entry that this rank has not in flight it may be a mixture of two names, while the entry passes on.
  std::string name(int entry) const;
  // The same for a short name; a long one is cut and gets a hash, so that no other name equals it.
  std::string unique_name(int entry) const;
  // The submissions that a line stands for. Valid until this rank has completed the line.
  class LineSubmissions {
   public:
    // Null: the rank had joined.
    const RankSubmission* of(int rank) const noexcept {
      const RankSubmission& one = first_[rank];
      return one.generation.load(std::memory_order_acquire) == mark_ ? &one : nullptr;
    }

   private:
    friend ReadinessTable;
    LineSubmissions(const RankSubmission* first, std::uint32_t mark) : first_(first), mark_(mark) {}
    const RankSubmission* first_;  // by rank
    std::uint32_t mark_;
  };
  LineSubmissions submissions(const LogLine& line) const noexcept;
  // The submission of the first rank that arrived, or the one from add_agreed(); its descriptor and sizes hold for all
  // ranks.
  const RankSubmission& agreed(const LogLine& line) const noexcept;
  // Ranks of this host that have not arrived for this rank's submission `generation`; none once it is complete.
  std::vector<int> missing(int entry, std::uint8_t generation) const;

  RankStatus& status(int rank) const noexcept { return status_[rank]; }
  const LogRing& complete() const noexcept { return complete_; }
  // The position of the log up to which all ranks of the host have completed it.
  std::uint64_t completed_by_all() const noexcept;

  // Adds a line to the log that ranks run.
  void log_line(LogLine line) noexcept;
  // Makes the line of a tensor that no rank of this host has submitted, since all have joined. name: as unique_name().
  Result<LogLine> add_agreed(std::string_view name, std::uint64_t signature, const OpDescriptor& op,
                             std::span<const TensorSize> sizes);

 private:
  // Segment 0 has the first entries, each later one as many as all before it.
  struct Segment {
    Segment() = default;
    Segment(SharedLayout& memory, int entries, int ranks);

    std::atomic<std::uint32_t>* tags = nullptr;  // by entry: part of the name's hash, 0: never used
    TableEntry* entries = nullptr;
    RankSubmission* submissions = nullptr;  // by entry, parity of the generation, and rank
  };
  int growths() const noexcept;
  int first_entry(int segment) const noexcept { return segment == 0 ? 0 : capacity_ << (segment - 1); }
  int entries_of(int segment) const noexcept { return segment == 0 ? capacity_ : first_entry(segment); }
  Segment later_segment(int segment) const noexcept;
  // The part of the segment that belongs to one of its entries.
  Segment at(const Segment& segment, int offset) const noexcept;
  Segment place(int index) const noexcept;
  Status grow();

  TableEntry& entry(int index) const noexcept {
    if (index < capacity_) [[likely]]
      return first_.entries[index];
    return *place(index).entries;
  }
  RankSubmission& submission_at(int entry, std::uint32_t generation, int rank) const noexcept;
  bool has_arrived(int entry, std::uint32_t generation, int rank) const noexcept;
  int look_up(const std::uint64_t (&hashes)[2], std::uint32_t& version) const noexcept;
  int bucket(std::uint64_t hash, int segment) const noexcept;
  int look_up_in(int segment, const std::uint64_t (&hashes)[2], std::uint32_t& version) const noexcept;
  Result<EntryRef> make_entry(std::string_view name, const std::uint64_t (&hashes)[2]);
  int choose_entry(int segment, const std::uint64_t (&hashes)[2], std::uint64_t& state) const noexcept;
  // Completes the entry if all of its ranks have arrived or joined; `state` was read of it before.
  void complete_with_joined(int index, std::uint64_t state) noexcept;
  // Adds the line of an entry that is complete by its state.
  void publish(int index, std::uint32_t generation) noexcept;
  LogKind kind_of(const LineSubmissions& all) const noexcept;

  int capacity_;
  int rank_;
  int ranks_;
  std::vector<int> set_ranks_;
  HostBlocks& blocks_;
  TableHeader* header_;
  RankStatus* status_;
  Segment first_;
  LogRing complete_;
  LogRing log_;
};

}  // namespace xoe::engine
