// One process set on this rank: its communicator, its table, and what is under way between them.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/execute/operations.h"
#include "engine/negotiate/host_leader.h"
#include "engine/negotiate/readiness_table.h"
#include "engine/submission.h"
#include "xoe/engine.h"

namespace xoe::engine {

class Runtime;  // runtime.h
struct Knobs;   // knobs.h

class ProcessSet {
 public:
  // Collective over `comm`. ranks: world ranks by set rank.
  static Result<std::unique_ptr<ProcessSet>> create(ProcessSetId id, Communicator comm, std::vector<int> ranks,
                                                    const EngineOptions& options, std::shared_ptr<GpuPlugin> gpu,
                                                    Runtime& runtime);
  ~ProcessSet();

  ProcessSetId id() const noexcept { return id_; }
  const std::vector<int>& ranks() const noexcept { return ranks_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(ranks_.size()); }

  // --- any thread ---

  // The name for a nameless operation.
  std::string next_name(OpKind kind);
  // Hands the submission over. An error: it was not taken, and nobody has seen it.
  Status submit(std::shared_ptr<Submission> submission);
  Status join(std::shared_ptr<Submission> submission);
  void wake() const noexcept { comm_.backend().wake(); }
  int pending() const noexcept { return pending_.load(std::memory_order_acquire); }

  // --- the thread that drives ---

  // Goes on as far as possible without blocking. True if anything moved.
  bool progress();
  // Looks for lost and departed ranks.
  void check_failures();
  // Ends the set on this rank: everything pending and later gets this cause.
  void fail(const Error& cause);
  // Ends it on all ranks.
  void abort(Error cause);
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  bool busy() const noexcept { return !running_.empty() || !queued_.empty(); }
  Communicator& comm() noexcept { return comm_; }

  // What has been submitted here, and not by all ranks.
  struct Waiting {
    std::shared_ptr<Submission> submission;
    std::vector<int> missing;       // world ranks
    std::vector<std::string> last;  // what each of them did last in this set
  };
  std::vector<Waiting> waiting() const;
  ReadinessTable& table() noexcept { return *table_; }
  // When to look again even if nobody calls: a leader may have to give up a plan.
  bool wants_look() { return leader_ != nullptr && leader_->held_back(); }
  // What batches are made by from the next seal on. Heard from set rank 0 only.
  void set_knobs(const Knobs& knobs) noexcept;

 private:
  // A submission's address with 16 bits of its name's hash above it, so that two names cannot be mistaken.
  using Slot = std::atomic<std::uint64_t>;

  ProcessSet(ProcessSetId id, Communicator comm, std::vector<int> ranks, std::shared_ptr<GpuPlugin> gpu,
             Runtime& runtime);

  // Claims the name and says on the table that this rank is ready.
  Status arrive(const std::shared_ptr<Submission>& submission);
  Status refuse() const;
  void count_pending(int change) noexcept;
  int world_rank(int host_rank) const { return ranks_[static_cast<std::size_t>(table_->set_rank(host_rank))]; }
  // True if anything moved.
  bool seal_more();

  bool progress_until_blocked();
  // drained: all that ranks have sent has been looked at.
  void look_for_departed(bool drained);
  bool take_seals();
  void tell_agreed(const LogLine& line, Submission& submission);
  void take_line(std::uint64_t position);
  std::shared_ptr<Submission> take_submission(const LogLine& line);
  std::string describe_mismatch(const LogLine& line) const;
  void answer_mismatch(const LogLine& line, Submission& submission) const;
  Status connect_hosts(const std::vector<int>& hosts);
  void finish_join(int last_joined);
  void queue_batches(ReadyOps ready, std::uint16_t knobs, std::uint64_t position);
  bool start_batches();
  bool run_batches();
  void finish(const Batch& batch);
  void finish_part(Submission& submission, const Status& status);
  void complete(Submission& submission, Status status);
  void note_completed();
  void add_missing_hosts(Waiting& waiting) const;

  ProcessSetId id_;
  std::vector<int> ranks_;
  std::unique_ptr<GpuCommunicator> gpu_comm_;  // before comm_: peers learn first that this rank leaves
  Communicator comm_;
  int rank_;
  Runtime& runtime_;
  std::unique_ptr<ReadinessTable> table_;
  std::unique_ptr<HostLeader> leader_;  // on the first rank of a host, of several
  bool many_hosts_ = false;
  std::vector<Slot> slots_;           // by entry: what this rank has in flight
  mutable std::mutex retract_mutex_;  // keeps what is in a slot alive while it is looked at
  std::array<std::atomic<std::uint32_t>, 16> unnamed_{};
  std::atomic<int> pending_{0};
  std::atomic<bool> failed_{false};
  mutable std::mutex cause_mutex_;
  std::optional<Error> cause_;
  std::atomic<std::uint64_t> join_gate_{0};  // submissions on their way, and kJoined
  std::mutex join_mutex_;
  std::shared_ptr<Submission> joining_;

  // Of the thread that drives.
  OpContext context_;
  std::uint64_t seal_number_ = 0;
  std::uint64_t sealed_end_ = 0;
  std::deque<std::unique_ptr<Batch>> queued_;
  std::deque<std::unique_ptr<Batch>> running_;
  std::uint64_t noted_completed_ = 0;
  ReadyOps taken_;         // from the log, not in batches yet
  bool departed_ = false;  // a rank has gone; to be looked at
  int in_flight_ = 2;
};

}  // namespace xoe::engine
