// How hosts agree on one order of tensors (docs/negotiation.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/negotiate/history.h"
#include "engine/negotiate/message.h"
#include "engine/negotiate/name_table.h"
#include "engine/negotiate/replay.h"
#include "xoe/status.h"

namespace xoe::engine {

// The same on all hosts.
struct CoordinatorOptions {
  int fanout = 4;                     // children of a host, 1 to 32
  std::size_t cache_capacity = 8192;  // names with an id at once
  std::size_t unit_tensors = 32;      // a unit of a plan has no more
  bool replay = true;
};

struct Outgoing {
  int to_host = 0;
  std::vector<std::byte> bytes;
};

struct DecidedTensor {
  std::shared_ptr<const TensorLabel> label;
  std::uint64_t signature = 0;  // of an error: not set
  std::string error;            // not empty: hosts disagree; every host's values

  const std::string& name() const noexcept { return label->name; }
  // The description. Where it is no error the same on all hosts, also on those that never submitted the name.
  const std::string& text() const noexcept { return label->text; }
};

struct Decision {
  std::uint64_t sequence = 0;  // 0, 1, 2, ...
  std::uint64_t knobs = 0;     // what the root gave flush()
  std::vector<DecidedTensor> tensors;
  std::optional<int> joined;  // after these tensors: all ranks have joined, this one last
  bool replayed = false;
};

// One host's part. A state machine: nothing here waits, reads a clock or sends; the caller carries messages, which must
// arrive in order between each two hosts and not get lost. Hosts form a tree with host 0 as the root, which decides.
//
// All hosts take the same decisions in the same order. A tensor is decided once every host has called ready() or
// fail_local() for it, or has joined; each call leads to one decision. When messages stop, nothing is decided any more,
// and nothing else happens.
//
// After an error from receive() the agreement is lost for good: every later call returns that error.
//
// Thread safety: none; one thread at a time.
class Coordinator {
 public:
  using Options = CoordinatorOptions;

  // REQUIRES: 0 <= host < hosts.
  Coordinator(int host, int hosts, Options options);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // All ranks of this host have submitted `name` (up to 2048 bytes; not again before its decision). `signature` hashes
  // what hosts must agree on, `text` says it in words and is cut at 16 KiB.
  void ready(std::string_view name, std::uint64_t signature, std::string_view text);
  // They have, and disagree: `text` has each rank's values. The decision will be an error.
  void fail_local(std::string_view name, std::string_view text);
  // All ranks of this host have joined, `last_rank` last: it has nothing more to submit and everything ready, until a
  // decision says that all have joined. REQUIRES: ready() was called for what they submitted before; called later, a
  // decision that was on its way without this host may have settled it, or it waits for the others' next submission.
  void joined(int last_rank);
  // Somebody waits for a tensor behind one of the plan that does not come.
  void leave_replay();

  // Root: something could be decided now.
  bool has_ready() const;
  // Root: decides all that is ready everywhere, as one decision. Called when the wire is idle: until then more gathers.
  void flush(std::uint64_t knobs);

  // `internal` for bytes that no Coordinator of this version and options would send.
  Status receive(int from_host, std::span<const std::byte> message);
  // What has changed since the last call: at most one message for each neighbour.
  std::vector<Outgoing> take_messages();
  std::vector<Decision> take_decisions();

  // Hosts that `name` waits for, as far as known here: this one, and children in whose subtrees somebody has not got
  // it.
  std::vector<int> missing_hosts(std::string_view name);
  // `name` is ready here, and waits for something else of the plan that is not.
  bool held_back(std::string_view name);
  // Hosts that messages come from and go to: the parent first.
  std::vector<int> neighbours() const;
  std::size_t cached() const noexcept { return table_.known(); }
  bool replaying() const noexcept { return replay_.has_value(); }

 private:
  bool is_root() const noexcept { return host_ == 0; }
  int parent() const noexcept { return (host_ - 1) / options_.fanout; }
  int child(int index) const noexcept { return host_ * options_.fanout + 1 + index; }

  // Gathering, gather.cc.
  void submitted(NameEntry& entry);
  void check_complete(NameEntry& entry);
  void check_all_complete();
  Status arrive(NameEntry& entry, std::uint32_t bit);
  void deviate();
  bool subtree_joined() const;
  std::uint64_t subtree_units() const;
  std::vector<HostValue> values_of(const NameEntry& entry) const;
  void report(NameEntry& entry, Reports& reports);
  std::optional<std::vector<std::byte>> take_report();
  Status receive_up(int index, const UpMessage& message);
  Status accept(int index, const Reports& reports);
  Status accept(int index, const Progress& progress);
  Status accept(int index, const Leave& leave);

  // Deciding, decide.cc; the root.
  void decide_group(std::uint64_t knobs);
  void decide_units(std::uint64_t knobs);
  void add_to(GroupRecord& record, NameEntry& entry);
  void evict_oldest();
  void look_for_plan();
  void announce(const DownRecord& record);

  // Applying what was decided, apply.cc.
  Status apply(const DownRecord& record);
  Status apply_one(const GroupRecord& record);
  Status apply_one(const UnitsRecord& record);
  Status apply_one(const PlanRecord& record);
  Status apply_one(const BreakRecord& record);
  Status apply_one(const EvictRecord& record);
  Status settle(const GroupRecord::Named& named, bool is_error, Decision& decision);
  Status decide(NameEntry* entry, std::string error, Decision& decision);
  Status begin_epoch(std::uint64_t epoch);
  Status fail(std::string_view what);

  const int host_;
  const int hosts_;
  const Options options_;
  int children_ = 0;
  std::uint32_t all_children_ = 0;  // a bit each

  NameTable table_;
  std::vector<NameEntry*> complete_;  // here and in all subtrees below, not yet told
  // Rises with each plan, break and eviction, after which everything undecided is told anew: what was said in an
  // earlier one says nothing.
  std::uint64_t epoch_ = 0;
  std::uint64_t applied_ = 0;  // decisions
  std::uint64_t knobs_ = 0;

  bool joined_ = false;
  bool join_told_ = false;
  int last_rank_ = 0;
  std::uint32_t children_joined_ = 0;

  std::optional<Replay> replay_;
  std::vector<std::uint64_t> child_units_;
  std::uint64_t told_units_ = 0;
  bool deviates_ = false;
  bool deviation_told_ = false;

  DecisionHistory history_;  // the root's
  ByteWriter down_;          // records for the children
  std::vector<Decision> decisions_;
  Status state_;
};

}  // namespace xoe::engine
