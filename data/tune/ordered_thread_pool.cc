#include "xoe/data/ordered_thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "data/tune/cpu_ledger.h"
#include "data/tune/tuning.h"

namespace xoe::data {
namespace {

constexpr std::size_t kLongestName = 15;  // of a thread, in Linux

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

OrderedThreadPool::OrderedThreadPool(ThreadPoolOptions options, Pull pull, Work work)
    : options_(std::move(options)),
      pull_(std::move(pull)),
      work_(std::move(work)),
      account_(std::make_unique<CpuAccount>()) {
  options_.depth = std::max<std::size_t>(options_.depth, 1);
  if (options_.tune && options_.threads > 0)
    tuning_ = std::make_unique<Tuning>(
        TunerLimits{
            .least = {1, options_.least_depth}, .most = {options_.threads, options_.depth}, .cpus = options_.cpus},
        account_.get());
  if (!options_.waits) start();
}

OrderedThreadPool::~OrderedThreadPool() { stop(); }

void OrderedThreadPool::start() {
  options_.waits = false;
  const std::lock_guard lock(mutex_);  // the threads wait for it
  threads_ = tuning_ ? tuning_->setting().threads : options_.threads;
  depth_ = tuning_ ? tuning_->setting().depth : options_.depth;
  stats_ = {.most_threads = options_.threads, .most_depth = options_.depth};
  started_ = Clock::now();
  if (tuning_) tuning_->restart();
  for (int worker = 0; worker < options_.threads; ++worker)
    workers_.emplace_back([this, worker](const std::stop_token& token) { run(token, worker); });
  account_->open(workers_);
}

void OrderedThreadPool::stop() {
  account_->close();
  for (std::jthread& thread : workers_) thread.request_stop();
  workers_.clear();
}

void OrderedThreadPool::restart(const std::function<void()>& reset) {
  stop();
  queue_.clear();
  ended_ = pulling_ = false;
  reset();
  start();
}

std::deque<std::unique_ptr<Job>> OrderedThreadPool::end() {
  stop();
  options_.waits = false;
  ended_ = true;
  return std::exchange(queue_, {});
}

// With the lock held, as all that follows unless it says otherwise.
Job* OrderedThreadPool::claimable() const {
  for (const auto& job : queue_)
    if (job->claimed_ < job->tasks_) return job.get();
  return nullptr;
}

bool OrderedThreadPool::may_pull() const { return !pulling_ && !ended_ && queue_.size() < depth_; }

// Without the lock while the upstream works.
void OrderedThreadPool::pull_one(std::unique_lock<std::mutex>& lock) {
  pulling_ = true;
  lock.unlock();
  const auto start = Clock::now();
  std::unique_ptr<Job> job = pull_();
  const auto end = Clock::now();
  lock.lock();
  stats_.pulling += seconds_between(start, end);
  pulling_ = false;
  ended_ = job == nullptr;
  const bool many = job != nullptr && job->tasks_ > 1;
  if (job != nullptr) queue_.push_back(std::move(job));
  // A job without tasks is complete at once, and the consumer must see the end.
  if (ended_ || queue_.front()->tasks_ == 0) oldest_done_.notify_one();
  if (many)
    more_work_.notify_all();
  else
    more_work_.notify_one();
}

void OrderedThreadPool::run(const std::stop_token& stop, int worker) {
  ::pthread_setname_np(::pthread_self(), options_.name.substr(0, kLongestName).c_str());
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (worker >= threads_) {
      in_use_.wait(lock, stop, [&] { return worker < threads_; });
      continue;
    }
    Job* job = claimable();
    if (job == nullptr && may_pull()) {
      pull_one(lock);
      continue;
    }
    if (job == nullptr) {
      const auto start = Clock::now();
      const bool counts = !ended_ && !pulling_;
      more_work_.wait(lock, stop, [&] { return claimable() != nullptr || may_pull() || worker >= threads_; });
      if (counts) stats_.idle += seconds_between(start, Clock::now());
      continue;
    }
    const std::size_t task = job->claimed_++;
    lock.unlock();
    const auto start = Clock::now();
    work_(*job, task, worker);
    const auto end = Clock::now();
    lock.lock();
    stats_.working += seconds_between(start, end);
    ++job->done_;
    if (job->done_ == job->tasks_ && job == queue_.front().get()) oldest_done_.notify_one();
  }
}

std::unique_ptr<Job> OrderedThreadPool::take_oldest() {
  std::unique_lock lock(mutex_);
  for (const auto& job : queue_) stats_.ready += job->done_ == job->tasks_ ? 1 : 0;
  oldest_done_.wait(lock, [this] { return queue_.empty() ? ended_ : queue_.front()->done_ == queue_.front()->tasks_; });
  if (queue_.empty()) return nullptr;
  std::unique_ptr<Job> job = std::move(queue_.front());
  queue_.pop_front();
  ++stats_.taken;
  stats_.tasks += static_cast<std::int64_t>(job->tasks_);
  // One freed place lets one thread pull, which wakes the others if there is work for them.
  more_work_.notify_one();
  return job;
}

// Without threads. Another thread may still ask for the stats.
std::unique_ptr<Job> OrderedThreadPool::make_here() {
  if (ended_) return nullptr;
  const auto start = Clock::now();
  std::unique_ptr<Job> job = pull_();
  const auto pulled = Clock::now();
  ended_ = job == nullptr;
  for (std::size_t task = 0; job != nullptr && task < job->tasks_; ++task) work_(*job, task, 0);
  const std::lock_guard lock(mutex_);
  stats_.pulling += seconds_between(start, pulled);
  if (ended_) return nullptr;
  stats_.working += seconds_between(pulled, Clock::now());
  ++stats_.taken;
  stats_.tasks += static_cast<std::int64_t>(job->tasks_);
  return job;
}

std::unique_ptr<Job> OrderedThreadPool::take() {
  if (options_.waits) start();
  const auto start = Clock::now();
  std::unique_ptr<Job> job = options_.threads > 0 ? take_oldest() : make_here();
  {
    const std::lock_guard lock(mutex_);
    stats_.waited += seconds_between(start, Clock::now());
  }
  if (tuning_ && tuning_->window_ended()) tune();
  return job;
}

void OrderedThreadPool::tune() {
  const std::lock_guard lock(mutex_);
  if (!tuning_->step({.waited = stats_.waited, .idle = stats_.idle, .input = stats_.pulling, .taken = stats_.taken}))
    return;
  threads_ = tuning_->setting().threads;
  depth_ = tuning_->setting().depth;
  more_work_.notify_all();
  in_use_.notify_all();
}

ThreadPoolStats OrderedThreadPool::stats() const {
  const std::lock_guard lock(mutex_);
  ThreadPoolStats stats = stats_;
  stats.threads = threads_;
  stats.depth = depth_;
  stats.seconds = seconds_between(started_, Clock::now());
  if (stats.taken > 0) stats.ready /= static_cast<double>(stats.taken);
  if (tuning_) stats.last_tuning = tuning_->reason();
  return stats;
}

void OrderedThreadPool::report(StageReport& stage) const {
  ThreadPoolStats seen = stats();
  stage.seconds = seen.working;
  stage.waited = seen.pulling;
  if (options_.threads == 0) return;
  stage.idle = seen.idle;
  stage.threads = seen.threads;
  stage.most_threads = seen.most_threads;
  stage.pullers = 1;
  stage.ready = seen.ready;
  stage.depth = seen.depth;
  stage.most_depth = seen.most_depth;
  stage.last_tuning = std::move(seen.last_tuning);
}

}  // namespace xoe::data
