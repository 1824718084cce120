// Makes progress on the process sets of a rank: in the threads that submit, poll or wait, else in a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "core/engine/process_sets/process_set_registry.h"
#include "core/engine/process_sets/progress_lock.h"
#include "core/engine/runtime/fork_detector.h"
#include "core/engine/submission/submission.h"
#include "core/engine/telemetry/telemetry.h"
#include "core/engine/tuning/engine_tuner.h"
#include "core/engine/watch/stall_watch.h"

namespace xoe::engine {

// Any thread may call any member, those apart that say otherwise.
class ProgressEngine {
 public:
  // All arguments outlive this. tuner: null: this rank does not tune. oversubscribed: more ranks than processors.
  ProgressEngine(ProcessSetRegistry& sets, Telemetry& telemetry, EngineTuner* tuner, StallWatch& stalls,
                 const ForkDetector& fork, bool oversubscribed)
      : sets_(sets),
        telemetry_(telemetry),
        tuner_(tuner),
        stalls_(stalls),
        fork_(fork),
        oversubscribed_(oversubscribed) {}

  void start_thread();
  void stop_thread();
  // In a forked child, which has no such thread.
  void abandon_thread();
  void wake_progress_thread() noexcept;

  // Submissions of all sets that have not completed.
  std::atomic<int>& pending() noexcept { return pending_; }
  int waiters() const noexcept { return waiters_.load(std::memory_order_seq_cst); }
  // Its owner makes progress.
  ProgressLock& lock() noexcept { return lock_; }

  // `submission` was just enqueued, and no thread waits for it yet.
  void submitted(const Submission& submission);
  bool poll(Submission& submission);
  // `timeout`: not completed by `until`. launched: until its work is in the GPU's queue. REQUIRES then:
  // Submission::launched.
  Status wait(Submission& submission, std::optional<EngineClock::time_point> until, bool launched = false);
  // Looks for lost ranks, unless another thread makes progress.
  void try_check_failures();

  // Runs act() while no other thread makes progress, also in a callback, but gives up after `timeout`: the thread that
  // makes progress may be blocked.
  template <class Act>
  void exclusive_within(std::chrono::nanoseconds timeout, Act&& act) {
    if (lock_.held_by_this_thread()) return act();
    const auto until = EngineClock::now() + timeout;
    while (!lock_.try_lock()) {
      if (EngineClock::now() >= until) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::lock_guard lock(lock_, std::adopt_lock);
    act();
  }

 private:
  // A submission at this time makes progress, also for those that follow it closely. Notes the time.
  bool starts_burst(std::int64_t now_ns) noexcept;
  // True: something moved.
  bool try_progress();
  bool progress();         // waits for its turn
  bool progress_locked();  // REQUIRES: lock_
  // Looks for lost ranks and stalls. Returns when to do so again.
  EngineClock::time_point check_failures();
  void check_failures_locked();  // REQUIRES: lock_
  void sleep_until(Submission& submission, const std::function<bool()>& over,
                   std::optional<EngineClock::time_point> until, bool listed);
  void run_thread(const std::stop_token& stop);
  // Submissions and polls of the program's threads so far.
  std::uint32_t activity() const noexcept {
    return wakes_.load(std::memory_order_seq_cst) + idle_polls_.load(std::memory_order_relaxed);
  }
  void nap_through_burst(const std::stop_token& stop);
  void progress_until_burst(const std::stop_token& stop);

  ProcessSetRegistry& sets_;
  Telemetry& telemetry_;
  EngineTuner* const tuner_;
  StallWatch& stalls_;
  const ForkDetector& fork_;
  const bool oversubscribed_;
  ProgressLock lock_;
  std::atomic<int> pending_{0};
  std::atomic<int> waiters_{0};
  std::atomic<std::uint32_t> idle_polls_{0};
  std::atomic<bool> busy_{false};  // a collective is under way, or about to be
  std::atomic<std::int64_t> last_submitted_ns_{0};
  std::atomic<std::int64_t> last_burst_ns_{0};  // when a submission last made progress
  std::atomic<std::uint32_t> urgent_{
      0};  // 1: a submission has a callback, and the thread must not nap; it may nap on it
  std::atomic<std::uint32_t> wakes_{0};  // the thread sleeps on it
  bool has_thread_ = false;
  std::optional<std::jthread> thread_;  // last
};

}  // namespace xoe::engine
