// Where the ranks of a host agree, without messages: a table of tensors in the memory that they share. A rank that has
// a tensor ready says so there; the one whose word completes the tensor writes it into a log. Whoever is idle then
// seals what the log holds, and all ranks run what lies between two seals, in that order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/op_descriptor.h"
#include "xoe/engine.h"
#include "xoe/status.h"

namespace xoe::engine {

inline constexpr std::size_t kBlockedNameBytes = 64;
inline constexpr std::size_t kListedTensors = 20;
inline constexpr std::size_t kNameBytes = 192;  // of a name that the table shows; longer ones are cut there
inline constexpr std::size_t kTextBytes = 192;  // of a description

// One rank's words on one tensor. Written by that rank before it arrives; others read it once the tensor is complete.
struct alignas(64) RankSubmission {
  std::atomic<std::uint32_t> generation;  // 1 + the one for which the rank has arrived
  std::uint32_t text_length;
  std::int64_t arrived_ns;  // of the steady clock
  std::uint64_t signature;  // hash of all that ranks must agree on
  OpDescriptor op;
  TensorSize sizes[kListedTensors];  // of the first tensors
  char text[kTextBytes];             // for people
};
static_assert(sizeof(RankSubmission) == 512 - 64);

struct alignas(64) Entry {
  std::atomic<std::uint64_t> state;  // version:24 (odd: being rewritten), generation:24, arrived:16
  std::atomic<std::uint64_t> hashes[2];
  std::atomic<std::uint64_t> last_end;  // the log's end after the last time that it was written there
  std::atomic<std::uint32_t> name_length;
  std::atomic<std::uint32_t> is_cut;  // the name is longer
  std::atomic<char> name[kNameBytes];
};

// What a rank tells of itself.
struct alignas(64) RankNote {
  std::atomic<std::uint64_t> completed;  // it holds nothing of the log before this any more
  std::atomic<std::uint32_t> joined;
  std::atomic<std::uint32_t> sleeping;  // threads of it that wait for operations of this set
  // On the world's table: what a thread of this rank waits for. sequence: odd while it is written.
  std::atomic<std::uint32_t> sequence;
  std::atomic<std::int32_t> blocked_set;
  std::atomic<std::uint64_t> blocked_mask;  // world ranks without which the wait cannot end; 0: it does not wait
  std::atomic<std::int32_t> last_entry;     // 1 + that of its last submission
  std::atomic<char> blocked_name[kBlockedNameBytes];
};

enum class LogKind : std::uint8_t { kRun, kBarrier, kMismatch, kJoinForbids, kAllJoined };

// A line of the log. For kAllJoined `entry` is the rank of the set that joined last.
struct LogLine {
  LogKind kind = LogKind::kRun;
  int entry = 0;
  std::uint8_t generation = 0;  // of the entry, its low bits
};

struct TableHeader;
struct ErrorText;

class ReadinessTable {
 public:
  static constexpr int kMaxCapacity = 1 << 19;  // a line of the log has 20 bits for an entry
  static constexpr std::uint64_t kUnsealed = ~std::uint64_t{0};
  static std::size_t bytes(int capacity, int ranks);

  // memory: zero at first, the same on all ranks of the host. rank: among them. set_ranks: what each is in the process
  // set. many_hosts: what is complete here goes to take_ready() instead of the log, and only the host's first rank
  // writes the log.
  ReadinessTable(std::byte* memory, int capacity, int rank, std::vector<int> set_ranks, bool many_hosts);

  int capacity() const noexcept { return capacity_; }
  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  int set_rank(int rank) const noexcept { return set_ranks_[static_cast<std::size_t>(rank)]; }

  // A place in the table, good until somebody else gets it: arrive() notices.
  struct Place {
    int entry = -1;
    std::uint32_t version = 0;
  };
  // Finds or makes the entry of a name. `gave_up` is asked while another rank is making entries.
  // `resource_exhausted`: all places are in use by operations under way.
  Result<Place> find(std::string_view name, const std::function<bool()>& gave_up);

  struct Arrival {
    std::uint64_t signature = 0;
    std::int64_t now_ns = 0;  // of the steady clock
    OpDescriptor op;
    std::span<const TensorSize> sizes;
    std::function<std::string()> text;  // called when the signature is not that of the last time
  };
  // Says that this rank is ready, after setting `generation` to what the log will call it. False: the place is not the
  // name's any more.
  bool arrive(Place place, const Arrival& arrival, std::atomic<std::uint8_t>& generation);

  // This rank is out of data: it counts as ready for everything until all have joined.
  void join();

  // Of an entry that is not in use here it may be a mixture of two names, if it is just passing on.
  std::string name(int entry) const;
  // The same for one whose name is cut, but no other has it.
  std::string unique_name(int entry) const;
  // The words of `rank` on what a line of the log says, null: it had joined. Valid until this rank has run or answered
  // that line.
  const RankSubmission* submission(const LogLine& line, int rank) const noexcept;
  // Those of the first rank that arrived: its descriptor and sizes holds for all.
  const RankSubmission& agreed(const LogLine& line) const noexcept;
  // Ranks of this host that have not arrived for what this rank arrived for as `generation`; none once it is complete.
  std::vector<int> missing(int entry, std::uint8_t generation) const;

  // The log.
  LogLine line(std::uint64_t position) const noexcept;
  struct Seal {
    std::uint64_t end = kUnsealed;
    std::uint16_t knobs = 0;
  };
  // begin: the end of the seal before. end == kUnsealed: not there yet.
  Seal seal(std::uint64_t number, std::uint64_t begin) const noexcept;
  // Seals what the log holds from `begin` on, unless somebody has or there is nothing. By the thread that drives.
  bool try_seal(std::uint64_t number, std::uint64_t begin, std::uint16_t knobs) noexcept;

  // Several hosts: the leader takes what is complete on this host, and writes what all hosts have decided.
  bool take_ready(std::uint64_t& position, LogLine& line) const noexcept;
  void append(LogLine line) noexcept;
  void seal_all(std::uint64_t number, std::uint16_t knobs) noexcept;
  // A line for what this host's ranks, which have all joined, have not submitted. name: as from unique_name().
  LogLine install(std::string_view name, std::uint64_t signature, const OpDescriptor& op,
                  std::span<const TensorSize> sizes);
  // What the hosts disagree about, for those who take the line; "" once too many others came after it.
  void set_error(const LogLine& line, std::string_view text) noexcept;
  std::string error(const LogLine& line) const;
  // Is a rank of this host asleep because an operation of this set does not complete?
  bool somebody_sleeps() const noexcept;

  RankNote& note(int rank) const noexcept;
  void completed(std::uint64_t position) noexcept;
  std::atomic<std::uint32_t>& knobs() const noexcept;

 private:
  struct Ring {
    std::atomic<std::uint64_t>* tail;
    std::atomic<std::uint64_t>* slots;
  };

  Entry& entry(int index) const noexcept { return entries_[index]; }
  RankSubmission& submission_at(int entry, std::uint32_t generation, int rank) const noexcept;
  int look_up(const std::uint64_t (&hashes)[2], std::uint32_t& version) const noexcept;
  std::uint64_t everywhere_completed() const noexcept;
  int choose_victim(const std::uint64_t (&hashes)[2], std::uint64_t& state) const noexcept;
  void write_submission(RankSubmission& submitted, const Arrival& arrival) const;
  // Completes the entry if all of its ranks have arrived or joined; `state` is what was read of it.
  void complete_with_joined(int index, std::uint64_t state) noexcept;
  // Writes the entry into the log; its state says already that it is complete.
  void publish(int index, std::uint32_t generation) noexcept;
  LogKind verdict(int index, std::uint32_t generation) const noexcept;
  void push(const Ring& ring, LogLine line) noexcept;
  bool filled(const Ring& ring, std::uint64_t position, LogLine& line) const noexcept;

  int capacity_;
  int rank_;
  int ranks_;
  std::vector<int> set_ranks_;
  std::size_t ring_mask_;
  TableHeader* header_;
  RankNote* notes_;
  std::atomic<std::uint32_t>* tags_;
  Entry* entries_;
  RankSubmission* submissions_;
  Ring log_;
  Ring ready_;  // the log itself where there is one host
  std::atomic<std::uint64_t>* seals_;
  ErrorText* errors_;
  std::size_t next_error_ = 0;
  std::uint64_t all_completed_ = 0;  // lower bound of everywhere_completed()
};

}  // namespace xoe::engine
