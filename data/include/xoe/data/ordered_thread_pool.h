// Threads that work on jobs in parallel and return them in order; map() and map_and_batch() run on them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "xoe/data/report.h"

namespace xoe::data {

class CpuAccount;
class Tuning;

// A unit of ordered output. Several threads may run its tasks at the same time.
class Job {
 public:
  explicit Job(std::size_t tasks) noexcept : tasks_(tasks) {}
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  std::size_t tasks() const noexcept { return tasks_; }
  // The first tasks, which are done. Of a job that end() gave.
  std::size_t done() const noexcept { return done_; }

 protected:
  // Before the pool gets it.
  void set_tasks(std::size_t tasks) noexcept { tasks_ = tasks; }

 private:
  friend class OrderedThreadPool;
  std::size_t tasks_;
  std::size_t claimed_ = 0;
  std::size_t done_ = 0;
};

struct ThreadPoolOptions {
  int threads = 1;              // 0: take() does the work in its caller's thread
  std::size_t depth = 2;        // jobs in work or waiting to be taken, at most; 1 or more
  bool tune = false;            // starts with one thread and least_depth jobs; adjusts both, up to the limits above
  std::size_t least_depth = 2;  // with tune
  int cpus = 0;                 // with tune: that all such stages of the process may use together; 0: any number
  std::string name = "work";    // of its threads, as the operating system shows it
  bool waits = false;           // the threads start with the first take() or restart()
};

// Jobs come out in the order in which they were pulled. Threads take the tasks of the oldest job first, so a slow
// task holds up nothing until `depth` jobs are full. Thread safety: take(), restart() and stats() by one thread at a
// time. `pull`, `work` and `reset` must not throw.
class OrderedThreadPool {
 public:
  // The next job, or null when there is none. Called by one thread at a time, not by the same one each time.
  using Pull = std::function<std::unique_ptr<Job>()>;
  // Runs one task; `worker` counts from 0 and is on one thread at a time.
  using Work = std::function<void(Job& job, std::size_t task, int worker)>;

  OrderedThreadPool(ThreadPoolOptions options, Pull pull, Work work);
  ~OrderedThreadPool();
  OrderedThreadPool(const OrderedThreadPool&) = delete;
  OrderedThreadPool& operator=(const OrderedThreadPool&) = delete;

  // The oldest job, complete; null at the end. Waits for it.
  std::unique_ptr<Job> take();

  // Drops all jobs that were pulled, calls `reset` while no thread works, and starts pulling again.
  void restart(const std::function<void()>& reset);

  // Ends the threads once each has finished its task, and gives the jobs that were pulled and not taken. take() gives
  // null from here on, until a restart().
  std::deque<std::unique_ptr<Job>> end();

  ThreadPoolStats stats() const;
  // What a stage that runs on this pool reports of it.
  void report(StageReport& stage) const;

 private:
  using Clock = std::chrono::steady_clock;

  void start();
  void stop();
  void run(const std::stop_token& stop, int worker);
  Job* claimable() const;
  bool may_pull() const;
  void pull_one(std::unique_lock<std::mutex>& lock);
  void tune();
  std::unique_ptr<Job> take_oldest();
  std::unique_ptr<Job> make_here();

  ThreadPoolOptions options_;
  Pull pull_;
  Work work_;
  std::unique_ptr<CpuAccount> account_;
  std::unique_ptr<Tuning> tuning_;  // of the consumer; null: fixed

  mutable std::mutex mutex_;
  std::condition_variable_any more_work_;  // of threads in use
  std::condition_variable_any in_use_;     // of those that are not
  std::condition_variable oldest_done_;
  std::deque<std::unique_ptr<Job>> queue_;  // oldest first
  int threads_ = 0;
  std::size_t depth_ = 0;
  bool pulling_ = false;  // a thread is in pull_
  bool ended_ = false;    // pull_ gave null
  Clock::time_point started_;
  ThreadPoolStats stats_;
  std::vector<std::jthread> workers_;  // last: joined before what they use goes
};

}  // namespace xoe::data
