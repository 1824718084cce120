// One process set on this rank: its communicator, its agreement with the other ranks, and the operations in flight.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/engine/execute/batch_runner.h"
#include "core/engine/negotiate/agreement.h"
#include "core/engine/process_sets/join_gate.h"
#include "core/engine/process_sets/services.h"
#include "core/engine/submission/in_flight_table.h"
#include "core/engine/submission/name_turns.h"
#include "core/engine/submission/submission.h"
#include "core/engine/submission/submission_pool.h"
#include "core/engine/telemetry/engine_trace.h"
#include "xoe/engine.h"

namespace xoe::engine {

struct Knobs;  // knobs.h

class ProcessSet {
 public:
  // Collective over `comm`. ranks: world ranks by set rank.
  static Result<std::unique_ptr<ProcessSet>> create(ProcessSetId id, Communicator comm, std::vector<int> ranks,
                                                    const EngineOptions& options, std::shared_ptr<GpuPlugin> gpu,
                                                    const ProcessSetServices& services);
  ~ProcessSet();

  ProcessSetId id() const noexcept { return id_; }
  const std::vector<int>& ranks() const noexcept { return ranks_; }
  int rank() const noexcept { return comm_.rank(); }
  int size() const noexcept { return static_cast<int>(ranks_.size()); }

  // --- any thread ---

  // Checks everything that this rank can check alone.
  Result<std::shared_ptr<Submission>> make_submission(const Request& request) { return pool_->obtain(request); }
  // Gives an unnamed submission its name. An error refuses the submission; it has no effect then.
  Status submit(const std::shared_ptr<Submission>& submission);
  Status join(std::shared_ptr<Submission> submission);
  void wake() const noexcept { host_group_.wake(); }
  HostGroup& host_group() const noexcept { return host_group_; }
  // The error of a set that has failed.
  Status refuse() const;
  int pending() const noexcept { return pending_.load(std::memory_order_acquire); }

  // --- the thread that makes progress ---

  // Continues as far as possible without blocking. True if anything moved.
  bool progress();
  // Looks for ranks that were lost or have left.
  void check_failures();
  // Ends the set on this rank: everything pending and later fails with this cause.
  void fail(const Error& cause);
  // Ends the set on all ranks.
  void abort(const Error& cause);
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  bool busy() const noexcept { return !runner_.empty(); }
  Communicator& comm() noexcept { return comm_; }

  // A submission of this rank that other ranks have not submitted.
  struct Waiting {
    std::shared_ptr<Submission> submission;
    std::vector<MissingRank> missing;  // empty: not known to this rank
  };
  std::vector<Waiting> waiting() const;
  Agreement& agreement() noexcept { return *agreement_; }
  // Limits of batches from the next seal on. Only those of set rank 0 count.
  void set_knobs(const Knobs& knobs) noexcept;

 private:
  ProcessSet(ProcessSetId id, Communicator comm, std::vector<int> ranks, const EngineOptions& options,
             std::shared_ptr<GpuPlugin> gpu, const ProcessSetServices& services);

  Status submit_unnamed(const std::shared_ptr<Submission>& submission);
  // Enters the submission, or lets it wait for its turn.
  Status arrive(const std::shared_ptr<Submission>& submission);
  // Claims the name and marks the submission as ready on this rank. False: the name is in flight.
  Result<bool> enter(const std::shared_ptr<Submission>& submission);
  // Enters the next submission that waits for this name, if it is free.
  void take_turn(const std::string& name);
  // The submission, whose turn it was, was refused: ends the set on all ranks. REQUIRES: this thread makes progress.
  void give_up_turn(const Submission& submission, const Error& why);
  void count_pending(int change) noexcept;

  // These return true if anything moved.
  bool progress_until_blocked();
  bool take_sealed();
  bool finish_batches();
  bool start_batches();
  bool decide_more();

  void take_line(std::uint64_t position, TimePoint now, EngineTrace::Recorder& recorder);
  void queue_batches(ReadyOps ready, std::uint16_t knobs, std::uint64_t position);
  void run_internal(const Batch& batch);
  void finish_join(int last_joined);
  void finish_part(Submission& submission, const Status& status);
  void complete(Submission& submission, Status status);
  void note_completed();
  void check_departed();
  std::string describe_departed() const;
  int own_world_rank() const { return ranks_[static_cast<std::size_t>(rank())]; }

  const ProcessSetId id_;
  const std::vector<int> ranks_;
  std::unique_ptr<GpuCommunicator> gpu_comm_;  // before comm_: peers learn first that this rank leaves
  Communicator comm_;
  HostGroup& host_group_;
  const ProcessSetServices services_;
  std::unique_ptr<Agreement> agreement_;
  std::shared_ptr<SubmissionPool> pool_;
  InFlightTable in_flight_;
  NameTurns turns_;
  std::atomic<int> pending_{0};
  JoinGate join_gate_;
  mutable std::mutex mutex_;
  std::atomic<bool> failed_{false};
  std::optional<Error> cause_;           // guarded by mutex_
  std::shared_ptr<Submission> joining_;  // guarded by mutex_

  // Only of the thread that makes progress:
  BatchRunner runner_;
  ReadyOps taken_;  // from the sealed log, not in batches yet
  std::uint64_t noted_completed_ = 0;
  bool departed_ = false;  // a rank has left; progress() checks it after taking all lines that were agreed before
};

}  // namespace xoe::engine
