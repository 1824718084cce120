// Who runs next, and virtual time.
#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/testing/sim/kernel.h"
#include "core/testing/sim/real.h"

namespace xoe::sim {

Kernel* kernel = nullptr;
thread_local Thread* self = nullptr;

namespace {

constexpr Time kCallCost = 500;      // nanoseconds, at most
constexpr int kRuns = 1, kEnds = 2;  // of Thread::turn

using Syscall = long(long, ...);
Syscall* real_syscall = nullptr;  // found before there are threads

void futex(std::atomic<int>& word, int operation, int value) {
  real_syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

// The system's thread ends at once: nothing of it is unwound, nor destroyed.
[[noreturn]] void leave() {
  while (true) real_syscall(SYS_exit, 0);
}

void await_turn(Thread& thread) {
  int turn = 0;
  while ((turn = thread.turn.load(std::memory_order_acquire)) == 0) futex(thread.turn, FUTEX_WAIT_PRIVATE, 0);
  if (turn == kEnds) leave();
  thread.turn.store(0, std::memory_order_relaxed);
}

void give_turn(Thread& thread) {
  kernel->load(*thread.process);
  thread.turn.store(kRuns, std::memory_order_release);
  futex(thread.turn, FUTEX_WAKE_PRIVATE, 1);
}

// Of the last step of a thread's end, after the destructors of its thread_local variables.
constexpr int kLastRound = 3;
struct Leaving {
  Thread* thread;
  int round = 0;
};

pthread_key_t leaving_key() {
  static const pthread_key_t key = [] {
    pthread_key_t made;
    pthread_key_create(&made, [](void* value) {
      auto* leaving = static_cast<Leaving*>(value);
      if (++leaving->round < kLastRound) {
        pthread_setspecific(leaving_key(), leaving);
        return;
      }
      kernel->end_thread(leaving->thread);
    });
    return made;
  }();
  return key;
}

void* run_thread(void* argument) {
  auto* thread = static_cast<Thread*>(argument);
  self = thread;
  await_turn(*thread);  // before anything else: the thread that started this one goes on meanwhile
  pthread_setspecific(leaving_key(), new Leaving{thread});
  return thread->start(thread->argument);
}

}  // namespace

Random::Random(std::uint64_t seed) {
  std::uint64_t mixed = seed + 0x9e3779b97f4a7c15ULL;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  state_ = (mixed ^ (mixed >> 31)) | 1;
}

std::uint64_t Random::next() {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return (state_ * 0x2545f4914f6cdd1dULL) >> 11;
}

bool Random::chance(double probability) {
  return probability > 0 && static_cast<double>(below(1'000'000)) < probability * 1e6;
}

void WaitQueue::wake_all() {
  const auto threads = threads_;  // a queue may be changed meanwhile
  for (Thread* thread : threads) kernel->wake(thread);
}

void WaitQueue::wake_one() {
  std::erase_if(threads_, [](const Thread* thread) { return thread->dead; });
  if (!threads_.empty()) kernel->wake(threads_[kernel->random.below(threads_.size())]);
}

bool Process::frozen() const { return stopped || machine->paused || !machine->on; }

Kernel::Kernel(const Options& given) : options(given), random(given.seed) { real_syscall = real<Syscall>("syscall"); }

void Kernel::at(Time when, std::function<void()> call) {
  timers_.push({.at = std::max(when, now_),
                .order = ++orders_,
                .call = std::make_shared<std::function<void()>>(std::move(call))});
}

void Kernel::wake(Thread* thread) {
  if (thread->dead || thread->ready) return;
  thread->ready = true;
  ++thread->wait;  // its timer is void
  if (!thread->process->frozen()) ready_.push_back(thread);
}

void Kernel::thaw(Process& process) {
  if (process.frozen()) return;
  for (Thread* thread : process.threads)
    if (thread->ready && !thread->dead && thread != self && std::ranges::find(ready_, thread) == ready_.end())
      ready_.push_back(thread);
}

bool Kernel::run_next_timer() {
  if (timers_.empty()) return false;
  const Timer timer = timers_.top();
  timers_.pop();
  now_ = std::max(now_, timer.at);
  if (timer.call) {
    (*timer.call)();
  } else if (!timer.thread->dead && timer.thread->wait == timer.wait) {
    timer.thread->timed_out = true;
    wake(timer.thread);
  }
  return true;
}

void Kernel::run_due() {
  while (!timers_.empty() && timers_.top().at <= now_) run_next_timer();
}

Thread* Kernel::choose() {
  run_due();
  while (true) {
    while (ready_.empty()) {
      if (run_next_timer()) continue;
      std::fputs("simulator: nothing will ever happen again\n", stderr);
      std::abort();
    }
    const auto index = random.below(ready_.size());
    Thread* const next = ready_[index];
    ready_[index] = ready_.back();
    ready_.pop_back();
    if (next->dead || next->process->frozen()) continue;
    note(static_cast<std::uint64_t>(next->id) ^ (static_cast<std::uint64_t>(now_) << 20));
    return next;
  }
}

void Kernel::pass_to(Thread* next) {
  if (next == self) return load(*self->process);
  give_turn(*next);
  await_turn(*self);
}

bool Kernel::wait(Time until) {
  Thread* const me = self;
  ++me->wait;
  me->timed_out = false;
  me->ready = false;
  if (until != kForever)
    timers_.push({.at = std::max(until, now_), .order = ++orders_, .thread = me, .wait = me->wait, .call = {}});
  pass_to(choose());
  return !me->timed_out;
}

void Kernel::yield() {
  self->ready = true;
  ready_.push_back(self);
  pass_to(choose());
}

void Kernel::enter() {
  ++calls;
  if (!options.parallel) now_ += cost(kCallCost);
  run_due();
  Process& process = *self->process;
  if (self->dead) park();
  if (process.frozen() || (!ready_.empty() && random.chance(options.preempt))) yield();
  if (!process.ended && has_signal()) deliver_signals();
}

Thread* Kernel::start_thread(Process* process, void* (*start)(void*), void* argument, pthread_t* made,
                             const pthread_attr_t* attributes) {
  auto* thread = new Thread;
  thread->process = process;
  thread->id = ++threads_;
  thread->start = start;
  thread->argument = argument;
  thread->blocked = self->blocked;
  static auto* const create = real<decltype(::pthread_create)>("pthread_create");
  static auto* const join = real<decltype(::pthread_join)>("pthread_join");
  for (const pthread_t one : std::exchange(ending_, {})) join(one, nullptr);  // they wait for nothing
  if (create(&thread->real, attributes, &run_thread, thread) != 0) {
    std::fputs("simulator: the machine has no room for another thread\n", stderr);
    std::abort();
  }
  if (made != nullptr) *made = thread->real;
  process->threads.push_back(thread);
  wake(thread);
  return thread;
}

void Kernel::end_thread(Thread* thread) {
  thread->dead = true;
  std::erase(thread->process->threads, thread);
  thread->joiners.wake_all();
  Thread* const next = choose();
  self = nullptr;
  give_turn(*next);
}

void Kernel::discard(Thread* thread) {
  thread->dead = true;
  if (thread == self) return;  // it parks
  ending_.push_back(thread->real);
  thread->turn.store(kEnds, std::memory_order_release);
  futex(thread->turn, FUTEX_WAKE_PRIVATE, 1);
}

void Kernel::park() {
  self->dead = true;
  ending_.push_back(self->real);
  give_turn(*choose());
  leave();
}

}  // namespace xoe::sim
