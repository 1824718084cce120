// One process set on this rank: its communicator, the agreement of its ranks, and what is under way.
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
#include "engine/negotiate/agreement.h"
#include "engine/submission.h"
#include "xoe/engine.h"

namespace xoe::engine {

class SetObserver;  // set_observer.h
struct Knobs;       // knobs.h

class ProcessSet {
 public:
  // Collective over `comm`. ranks: world ranks by set rank.
  static Result<std::unique_ptr<ProcessSet>> create(ProcessSetId id, Communicator comm, std::vector<int> ranks,
                                                    const EngineOptions& options, std::shared_ptr<GpuPort> gpu,
                                                    SetObserver& observer);
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
  void wake() const noexcept { host_group_.wake(); }
  HostGroup& host_group() const noexcept { return host_group_; }
  int pending() const noexcept { return pending_.load(std::memory_order_acquire); }

  // --- the thread that drives ---

  // Goes on as far as possible without blocking. True if anything moved.
  bool advance();
  // Looks for lost and departed ranks.
  void look_for_failures();
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
    std::vector<MissingRank> missing;  // empty: not known to this rank
  };
  std::vector<Waiting> waiting() const;
  Agreement& agreement() noexcept { return *agreement_; }
  // What batches are made by from the next seal on. Heard from set rank 0 only.
  void set_knobs(const Knobs& knobs) noexcept;

 private:
  // A submission's address with 16 bits of its name's hash above it, so that two names cannot be mistaken.
  using Slot = std::atomic<std::uint64_t>;

  ProcessSet(ProcessSetId id, Communicator comm, std::vector<int> ranks, std::shared_ptr<GpuPort> gpu,
             SetObserver& observer);

  // Claims the name and marks it as ready on this rank.
  Status arrive(const std::shared_ptr<Submission>& submission);
  Status refuse() const;
  void count_pending(int change) noexcept;
  // True if anything moved.
  bool decide_more();

  bool advance_as_far_as_possible();
  void check_departed();
  bool take_seals();
  void take_line(std::uint64_t position);
  std::shared_ptr<Submission> take_submission(const AgreedLine& agreed);
  void finish_join(const LogLine& line);
  void queue_batches(std::vector<Item> items, std::uint16_t knobs, std::uint64_t position);
  bool start_batches();
  bool run_batches();
  void finish(Running& running);
  void finish_part(const std::shared_ptr<Submission>& submission, const Status& status);
  void complete(Submission& submission, Status status);
  void note_completed();

  ProcessSetId id_;
  std::vector<int> ranks_;
  std::unique_ptr<GpuLane> lane_;  // before comm_: peers learn first that this rank leaves
  Communicator comm_;
  HostGroup& host_group_;
  int rank_;
  SetObserver& observer_;
  std::unique_ptr<Agreement> agreement_;
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
  Workshop shop_;
  std::deque<std::unique_ptr<Running>> queued_;
  std::deque<std::unique_ptr<Running>> running_;
  std::uint64_t noted_completed_ = 0;
  std::vector<Item> taken_;  // from the log, not in batches yet
  bool departed_ = false;    // a rank has left; advance() sees to it once it has taken all that was agreed before
  int in_flight_ = 2;
};

}  // namespace xoe::engine
