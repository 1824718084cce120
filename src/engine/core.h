// The engine of one rank: its process sets, and who drives them.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/fork_mark.h"
#include "engine/process_set.h"
#include "engine/set_observer.h"
#include "engine/watch/watch.h"
#include "xoe/engine.h"

namespace xoe::engine {

class Core final : public SetObserver, public std::enable_shared_from_this<Core> {
 public:
  // gpu: null: of the process's environment.
  static Result<std::shared_ptr<Core>> create(Communicator world, EngineOptions options,
                                              std::shared_ptr<GpuPort> gpu = nullptr);
  ~Core() override;
  // Fails what is pending and leaves the groups. Called once, by the engine's owner.
  void shut_down();

  enum class Use { kAsync, kWaited };
  Result<std::shared_ptr<Submission>> submit(const Request& request, Use use);
  bool poll(Submission& submission);
  Status wait(Submission& submission, std::optional<EngineClock::time_point> until);

  const Topology& topology() const noexcept { return topology_; }
  Result<SharedBuffer> shared_buffer(std::size_t bytes);
  Status takes_gpu_memory();
  Result<ProcessSetId> add_process_set(std::span<const int> ranks);
  Status remove_process_set(ProcessSetId set);
  Result<std::vector<int>> process_set_ranks(ProcessSetId set) const;
  std::vector<ProcessSetId> process_sets() const;
  std::string metrics();
  // Collective over the world: local rank 0 of each host makes the file before the others join it.
  Status start_timeline(const std::string& path);
  EngineTrace& trace() noexcept { return watch_->trace(); }

  // SetObserver
  void agreed(const ProcessSet& set, Submission& submission, int last, std::chrono::nanoseconds waited) override;
  void batch_done(const ProcessSet& set, const Running& running, const Status& status) override;
  void completing(const ProcessSet& set, Submission& submission, const Status& status) override;
  void failing(const ProcessSet& set, const Error& cause) override;
  void look_for_failures() override;
  void all_joined(const ProcessSet& set) override;
  Status run_internal(Submission& submission) override;

 private:
  static constexpr int kMaxSets = 1024;  // ever made, by one engine
  // A set can be removed while other threads look for it.
  struct SetSlot {
    std::atomic<ProcessSet*> set{nullptr};  // null: not there, or this rank is not in it
    std::atomic<int> users{0};
    std::atomic<bool> exists{false};
  };
  class SetUse;
  class Driving;

  Core(EngineOptions options, const Topology& topology) : options_(std::move(options)), topology_(topology) {}

  Status check_usable() const;
  Status check_member(const Request& request, const ProcessSet* set, bool exists) const;
  Status admit_gpu_memory(const Request& request, Submission& submission);
  Status hand_over(ProcessSet& set, const std::shared_ptr<Submission>& submission);
  void sleep_until_done(Submission& submission, std::optional<EngineClock::time_point> until, bool listed);
  Result<std::shared_ptr<Submission>> run_internal_request(InternalKind kind, const std::string& what,
                                                           std::vector<std::int64_t> argument);
  std::string internal_name(const std::string& what);
  Result<std::unique_ptr<ProcessSet>> form_set(ProcessSetId id, int key, const std::vector<int>& ranks);
  Status make_set(Submission& submission);
  Status drop_set(ProcessSetId id);

  bool is_driving() const noexcept { return driver_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
  bool try_drive();
  bool drive();         // waits for its turn
  bool drive_locked();  // REQUIRES: drive_mutex_
  void end_step();      // likewise
  template <class Do>
  void each_set(Do&& act) const {
    const std::size_t count = set_count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i)
      if (ProcessSet* set = sets_[i].set.load(std::memory_order_acquire); set != nullptr) act(*set);
  }
  void look_around();         // lost ranks, stalls; waits for its turn
  void look_around_locked();  // REQUIRES: drive_mutex_
  void progress(const std::stop_token& stop);
  void drive_for(const Submission& submission);
  void rouse() noexcept;  // the progress thread

  EngineOptions options_;
  Topology topology_;
  std::shared_ptr<GpuPort> gpu_;
  ForkMark fork_mark_;
  std::unique_ptr<Watch> watch_;
  std::array<SetSlot, kMaxSets> sets_;
  std::atomic<std::size_t> set_count_{0};  // of the slots that were ever used
  mutable std::mutex ranks_mutex_;
  std::vector<std::vector<int>> set_ranks_;  // by id; empty: removed
  std::map<std::string, int> internal_names_;
  ProcessSet* world_ = nullptr;
  bool oversubscribed_ = false;

  std::mutex drive_mutex_;
  std::atomic<std::thread::id> driver_{};
  std::atomic<int> waiters_{0};
  std::atomic<unsigned> idle_polls_{0};
  std::atomic<bool> busy_{false};  // a collective is under way, or about to be
  std::atomic<std::int64_t> last_drive_ns_{0};
  std::atomic<bool> urgent_{false};
  std::atomic<std::uint32_t> work_{0};  // what the progress thread sleeps on
  std::atomic<bool> closed_{false};
  std::optional<std::jthread> thread_;  // last
};

}  // namespace xoe::engine
