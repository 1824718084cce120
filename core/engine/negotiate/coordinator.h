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

#include "core/backend/leader_channel.h"
#include "core/engine/negotiate/message.h"
#include "core/engine/negotiate/name_table.h"
#include "xoe/status.h"

namespace xoe::engine {

struct CoordinatorOptions {
  int fanout = HostTree::kFanout;     // children of a host in the tree, 1 to 32; the same on all hosts
  std::size_t cache_capacity = 8192;  // names that hold an id at the same time; the root's counts
};

struct Outgoing {
  int to_host = 0;
  std::vector<std::byte> bytes;
};

struct DecidedTensor {
  std::shared_ptr<const TensorLabel> label;
  std::uint64_t signature = 0;  // unset for an error
  std::string error;            // not empty: the hosts disagree; lists the value of every host

  const std::string& name() const noexcept { return label->name; }
  // The description. Unless there is an error it is the same on all hosts, also on those that never submitted the name.
  const std::string& text() const noexcept { return label->text; }
};

struct Decision {
  std::uint64_t sequence = 0;  // 0, 1, 2, ...
  std::uint64_t knobs = 0;     // as the root passed them to flush()
  std::vector<DecidedTensor> tensors;
  std::optional<int> joined;  // set: all ranks have joined after these tensors, this rank last
};

// The coordinator of one host. It is a state machine that never waits, reads a clock or sends: its caller carries the
// messages, which must arrive in order between each pair of hosts, and none may be lost. Hosts form a tree with host 0
// as the root, which decides.
//
// All hosts apply the same decisions in the same order. A tensor is decided once every host has called ready() or
// fail_local() for it, or has joined; each call leads to one decision. When messages stop, no further decision is made,
// and nothing else happens.
//
// After an error from receive() the agreement is lost for good: every later call returns that error.
//
// Thread safety: none; one thread at a time.
class Coordinator {
 public:
  // REQUIRES: 0 <= host < hosts.
  Coordinator(int host, int hosts, CoordinatorOptions options);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // All ranks of this host have submitted `name` (up to 2048 bytes; not again before its decision). `signature` hashes
  // what hosts must agree on, `text` describes it and is cut at 16 KiB. With the bit kNeedsEveryRank in the signature
  // the decision will be an error if a host has joined.
  void ready(std::string_view name, std::uint64_t signature, std::string_view text);
  // They have submitted it, and disagree: `text` has each rank's values. The decision will be an error.
  void fail_local(std::string_view name, std::string_view text);
  // All ranks of this host have joined, `last_rank` last: the host submits nothing more and counts as ready for
  // everything until a decision says that all have joined. REQUIRES: ready() was called for what they submitted before;
  // called later, a decision on its way may have included it already, or it waits for the others' next submission.
  void joined(int last_rank);

  // Root: flush() would decide something.
  bool has_ready() const;
  // Root: decides all that is ready on every host, as one decision. Called when the wire is idle: until then more
  // gathers.
  void flush(std::uint64_t knobs);

  // `internal` for bytes that no coordinator of this version and options would send.
  Status receive(int from_host, std::span<const std::byte> message);
  // The changes since the last call: at most one message for each neighbour.
  std::vector<Outgoing> take_messages();
  std::vector<Decision> take_decisions();

  // Root: more names may hold an id from now on.
  void raise_cache_capacity(std::size_t names) noexcept;

  // Hosts that `name` waits for, as far as this host knows: itself, and children whose subtrees lack it.
  std::vector<int> missing_hosts(std::string_view name);
  std::size_t cached() const noexcept { return table_.known(); }

 private:
  bool is_root() const noexcept { return host_ == 0; }
  int parent() const noexcept { return tree_.parent(host_); }
  int child(int index) const noexcept { return tree_.child(host_, index); }
  Status fail(std::string_view reason);

  // Gathering what is ready in the subtree, and reporting it to the parent.
  void submitted(NameEntry& entry);
  void check_complete(NameEntry& entry);
  void check_all_complete();
  bool subtree_joined() const { return joined_ && children_joined_ == all_children_; }
  std::vector<HostValue> values_of(const NameEntry& entry) const;
  void add_to(Report& report, NameEntry& entry);
  std::optional<std::vector<std::byte>> take_report();
  Status accept(int child_index, const Report& report);
  Status arrive(NameEntry& entry, std::uint32_t child_bit);

  // Deciding; the root only.
  void add_to(DecisionRecord& record, NameEntry& entry);
  void evict_oldest();
  void announce(const DownRecord& record);

  // Applying decisions; every host, the root too.
  Status apply(const DecisionRecord& record);
  Status apply(const EvictionRecord& record);
  Status apply_named(const DecisionRecord::Named& named, bool is_error, Decision& decision);
  Status decide(NameEntry* entry, std::string error, Decision& decision);

  const int host_;
  CoordinatorOptions options_;
  const HostTree tree_;
  const int children_;
  std::uint32_t all_children_ = 0;  // a bit for each

  NameTable table_;
  std::vector<NameEntry*> complete_;  // ready here and in all subtrees below, not reported yet
  // Rises with each eviction, which makes reports of earlier epochs void: hosts report everything undecided again.
  std::uint64_t epoch_ = 0;
  std::uint64_t applied_ = 0;  // decisions

  bool joined_ = false;
  bool join_reported_ = false;
  int last_rank_ = 0;
  std::uint32_t children_joined_ = 0;

  ByteWriter down_;  // records for the children
  std::vector<Decision> decisions_;
  Status state_;
};

}  // namespace xoe::engine
