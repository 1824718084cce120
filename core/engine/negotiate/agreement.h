// How the ranks of a process set agree on what to run next, in one order for all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/negotiate/readiness_table.h"
#include "core/engine/negotiate/sealed_log.h"
#include "xoe/status.h"

namespace xoe::engine {

// The ranks of a process set, and how they spread over hosts.
struct AgreementMembers {
  std::vector<int> world_ranks;  // by rank of the set
  std::vector<int> hosts;        // by rank of the set: 0, 1, ...
  int rank = 0;                  // this one, in the set

  int host() const { return hosts[static_cast<std::size_t>(rank)]; }
  // Ranks of the set on this host, ascending.
  std::vector<int> local() const;
  // The index of this rank among them.
  int host_rank() const;
};

// One line of the agreed order.
struct AgreedLine {
  LogLine line;
  const RankSubmission* agreed = nullptr;  // descriptor, sizes and signature for all ranks; null for kAllJoined
  bool submitted_here = false;             // false: this rank has joined
  int last_rank = -1;                      // of the world, on this host: the last to submit or, for kAllJoined, to join
  std::int64_t last_ns = 0;                // when, by the steady clock
};

// A rank that an operation waits for.
struct MissingRank {
  int rank = 0;      // of the world
  std::string last;  // its last action in the process set, "submitted 'fc.bias' 61 s ago"; may be empty
};

// Ranks mark tensors as ready in a table in memory of their host. A tensor that all ranks have ready gets a line in the
// host's log. Seals cut the log into parts; all ranks run the same parts in the same order. With several hosts, their
// leaders agree on the order first (CrossHostAgreement).
//
// Thread safety: any thread may submit, and ask for names and for status(); for the rest, one thread at a time.
class Agreement {
 public:
  virtual ~Agreement() = default;

  // --- submitting ---

  // As in ReadinessTable.
  int entries() const noexcept { return table_.entries(); }
  Result<ReadinessTable::EntryRef> find(std::string_view name, const std::function<bool()>& gave_up) {
    return table_.find(name, gave_up);
  }
  bool arrive(ReadinessTable::EntryRef ref, const ReadinessTable::Arrival& arrival,
              std::atomic<std::uint8_t>& generation) {
    return table_.arrive(ref, arrival, generation);
  }
  void join() { table_.join(); }

  // --- deciding ---

  // Decides as much as it can without blocking. True if anything moved. may_seal: the wire is idle; until then more
  // gathers. `internal`: the hosts have lost their agreement.
  virtual Result<bool> progress(bool may_seal) = 0;
  bool has_sealed() const noexcept { return log_.has_next(); }
  // The next part of the log that all ranks run; nullopt: not sealed yet.
  std::optional<SealedLog::Seal> next_sealed() noexcept;
  // A line of a sealed part; its submission is valid until completed() passes the position.
  AgreedLine line(std::uint64_t position) const;
  // The end of the last part that next_sealed() has returned.
  std::uint64_t sealed_end() const noexcept { return log_.read_to(); }
  // This rank needs no line before `position` any more.
  void completed(std::uint64_t position) noexcept;
  // The error of a line of kind kMismatch or kJoinForbids. name: that of the submission.
  virtual std::string error(const LogLine& line, std::string_view name) const = 0;
  // Later seals carry these knobs. Only those of rank 0 of the set count.
  void set_knobs(std::uint16_t knobs) noexcept;

  // --- looking ---

  // Ranks that lack the tensor that this rank has submitted as `generation` of an entry. nullopt: all ranks have it,
  // and it will be sealed. Empty: another host may lack it, which this rank does not know.
  virtual std::optional<std::vector<MissingRank>> missing(int entry, std::uint8_t generation) = 0;
  // This rank alone knows what the process set waits for, and must tell the others.
  virtual bool speaks_for_host() const noexcept = 0;
  std::string name(int entry) const { return table_.name(entry); }
  // As ReadinessTable::unique_name().
  std::string unique_name(int entry) const { return table_.unique_name(entry); }

  // Ranks of this host, and what they publish about themselves.
  int host_ranks() const noexcept { return table_.ranks(); }
  int world_rank(int host_rank) const {
    return members_.world_ranks[static_cast<std::size_t>(table_.set_rank(host_rank))];
  }
  RankStatus& status(int host_rank) const noexcept { return table_.status(host_rank); }
  RankStatus& own_status() const noexcept { return table_.status(table_.rank()); }

 protected:
  // complete: where lines that are complete on this host go; nullopt: into the log.
  Agreement(SharedLayout& memory, HostBlocks& blocks, AgreementMembers members, int capacity,
            std::optional<LogRing> complete);

  std::uint16_t knobs() const noexcept;
  std::vector<MissingRank> missing_on_host(int entry, std::uint8_t generation) const;
  // The values of this host's ranks, which differ, or why a rank that has joined cannot take part. All ranks of the
  // host build the same text.
  std::string describe_mismatch(const LogLine& line) const;

  AgreementMembers members_;
  SealedLog log_;
  ReadinessTable table_;

 private:
  std::atomic<std::uint32_t>* knobs_;
};

}  // namespace xoe::engine
