// The engine of one rank, behind xoe::Engine.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/process_sets/process_set_registry.h"
#include "core/engine/process_sets/services.h"
#include "core/engine/runtime/fork_detector.h"
#include "core/engine/runtime/progress_engine.h"
#include "core/engine/telemetry/telemetry.h"
#include "core/engine/tuning/engine_tuner.h"
#include "core/engine/watch/stall_watch.h"
#include "xoe/engine.h"

namespace xoe::engine {

class Runtime final : public std::enable_shared_from_this<Runtime>, private ProcessSetOwner {
 public:
  // gpu: null: what the process's environment asks for.
  static Result<std::shared_ptr<Runtime>> create(Communicator world, EngineOptions options,
                                                 std::shared_ptr<GpuPlugin> gpu = nullptr);
  // Fails what is pending and leaves the groups. Other threads may be in calls, which end.
  void shut_down();
  // As Engine::abort().
  Status abort(std::string_view why);

  enum class Use { kAsync, kWaited };
  Result<std::shared_ptr<Submission>> submit(const Request& request, Use use);
  bool poll(Submission& submission) { return progress_->poll(submission); }
  Status wait(Submission& submission, std::optional<EngineClock::time_point> until);
  Status wait_in_stream(Submission& submission, void* stream, std::optional<EngineClock::time_point> until);

  const Topology& topology() const noexcept { return topology_; }
  Result<SharedBuffer> shared_buffer(std::size_t bytes);
  std::size_t bucket_bytes() const noexcept { return options_.bucket_bytes; }
  Result<std::vector<SharedBuffer>> map_peers(const SharedBuffer& mine, std::string_view name);
  Status takes_gpu_memory();
  Result<ProcessSetId> add_process_set(std::span<const int> ranks);
  Status remove_process_set(ProcessSetId set);
  const ProcessSetRegistry& process_sets() const noexcept { return sets_; }
  Status check_usable() const;
  // This process was forked from the one that made the engine.
  bool forked() const noexcept { return fork_.forked(); }
  // The error of a world that has failed. Looks for lost ranks.
  Status check_world();
  // Keeps memory that peers may still write to, until `unused` is true of it at a later call, or the engine is gone.
  void keep(SharedBuffer buffer, std::function<bool(const SharedBuffer&)> unused);
  std::chrono::nanoseconds stall_limit() const noexcept { return options_.stall_limit; }
  std::string metrics();
  // Collective over the world: local rank 0 of each host makes the file before the others join it. Rank 0's path
  // counts.
  Status start_timeline(const std::string& path);

  Telemetry& telemetry() noexcept { return *telemetry_; }

 private:
  Runtime(EngineOptions options, const Topology& topology) : options_(std::move(options)), topology_(topology) {}

  void try_check_failures() override { progress_->try_check_failures(); }
  void failing(const ProcessSet& set, const Error& cause) override;
  void all_joined(const ProcessSet& set) override;
  Status run_internal(Submission& submission) override;

  // Forms this rank's part of a process set.
  Result<std::unique_ptr<ProcessSet>> form_set(ProcessSetId id, Communicator comm, std::vector<int> ranks);
  Status not_member(const Request& request, bool exists) const;
  Status admit_gpu_memory(const Request& request, Submission& submission);
  Status enqueue(ProcessSet& set, const std::shared_ptr<Submission>& submission);
  Result<std::shared_ptr<Submission>> run_internal_request(InternalKind kind, const std::string& what,
                                                           std::vector<std::int64_t> argument);
  std::string internal_name(const std::string& what);
  Result<std::string> path_of_rank_0(const std::string& own);
  // True if a rank of this host has written to the timeline in an earlier world. Collective.
  Result<bool> timeline_goes_on(const std::string& path);

  EngineOptions options_;
  Topology topology_;
  std::shared_ptr<GpuPlugin> gpu_;
  ForkDetector fork_;
  std::unique_ptr<EngineTuner> tuner_;  // null: this rank does not tune
  std::unique_ptr<Telemetry> telemetry_;
  std::optional<StallWatch> stalls_;
  ProcessSetRegistry sets_;
  std::mutex mutex_;                                     // guards what follows
  std::map<std::string, std::uint64_t> internal_names_;  // how often each was used
  struct Kept {
    SharedBuffer buffer;
    std::function<bool(const SharedBuffer&)> unused;
  };
  std::vector<Kept> kept_;
  std::atomic<bool> closed_{false};
  std::optional<ProgressEngine> progress_;  // last: its thread uses the rest
};

}  // namespace xoe::engine
