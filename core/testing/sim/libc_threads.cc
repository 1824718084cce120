// The C library's threads, locks, clocks and sleeps, as a simulation has them.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstring>
#include <map>

#include "core/testing/sim/kernel.h"
#include "core/testing/sim/real.h"

namespace {

using xoe::sim::kernel;
using xoe::sim::kForever;
using xoe::sim::kSecond;
using xoe::sim::kUptime;
using xoe::sim::self;
using xoe::sim::Time;
using xoe::sim::WaitQueue;

constexpr Time kEpoch = Time{1'790'000'000} * kSecond;  // in September 2026
constexpr Time kClockCost = 20'000;                     // at most: a loop that waits for a time ends soon

using Word = std::pair<std::uint64_t, std::uint64_t>;

// One queue for each word that threads wait for.
std::map<Word, WaitQueue>& queues() {
  static auto* const all = new std::map<Word, WaitQueue>;
  return *all;
}

// Data of the program is each process's own, at one address; the heap is shared, and no two have the same of it.
Word word_at(const void* address) {
  constexpr std::uint64_t kOfImage = std::uint64_t{1} << 63;
  const bool own = xoe::sim::is_program_data(address) && self->process->image != nullptr;
  return {own ? kOfImage | self->process->image->number : 0, reinterpret_cast<std::uintptr_t>(address)};
}

// Gives what a clock shows when virtual time is zero.
Time origin_of(clockid_t clock) {
  const auto& machine = *self->process->machine;
  const bool wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  return wall ? kEpoch + machine.clock_ahead : kUptime + machine.boot_offset;
}

bool is_simulated(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME ||
         clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC_RAW;
}

Time time_of(const timespec& value) { return Time{value.tv_sec} * kSecond + value.tv_nsec; }
Time until(clockid_t clock, const timespec& when) { return std::max<Time>(time_of(when) - origin_of(clock), 0); }

void leave_queue(const Word& word) {
  const auto found = queues().find(word);
  found->second.remove(self);
  if (found->second.empty()) queues().erase(found);
}

// Waits for the queue of an address; the caller looks whether what it waits for has come.
bool wait_at(const Word& word, Time until) {
  auto& queue = queues()[word];
  queue.add(self);
  const bool woken = kernel->wait(until);
  leave_queue(word);
  return woken;
}

void wake_at(const Word& word, bool all) {
  const auto found = queues().find(word);
  if (found == queues().end()) return;
  if (all)
    found->second.wake_all();
  else
    found->second.wake_one();
}

int unlock(pthread_mutex_t* mutex) {
  REAL(pthread_mutex_unlock);
  const int result = real_pthread_mutex_unlock(mutex);
  wake_at(word_at(mutex), true);
  return result;
}

int lock(pthread_mutex_t* mutex, Time until) {
  REAL(pthread_mutex_trylock);
  while (true) {
    const int result = real_pthread_mutex_trylock(mutex);
    if (result != EBUSY) return result;
    if (!wait_at(word_at(mutex), until)) return ETIMEDOUT;
  }
}

int wait_for_condition(pthread_cond_t* condition, pthread_mutex_t* mutex, Time until) {
  const Word word = word_at(condition);
  queues()[word].add(self);
  unlock(mutex);
  const bool woken = kernel->wait(until);
  leave_queue(word);
  lock(mutex, kForever);
  return woken ? 0 : ETIMEDOUT;
}

int sleep_until(Time until) {
  while (kernel->wait(until)) {
    if (!std::exchange(self->interrupted, false)) continue;
    kernel->deliver_signals();
    return EINTR;
  }
  return 0;
}

long futex(int* word, int operation, int value, const timespec* limit) {
  const int command = operation & FUTEX_CMD_MASK;
  const Word key = (operation & FUTEX_PRIVATE_FLAG) != 0 ? word_at(word) : xoe::sim::shared_word(word);
  if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET) {
    wake_at(key, true);  // who is woken looks again
    return 0;
  }
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) return errno = ENOSYS, -1;
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) return errno = EAGAIN, -1;
  Time end = kForever;
  if (limit != nullptr)
    end = command == FUTEX_WAIT
              ? kernel->now() + time_of(*limit)
              : until((operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC, *limit);
  if (!wait_at(key, end)) return errno = ETIMEDOUT, -1;
  if (std::exchange(self->interrupted, false)) {
    kernel->deliver_signals();
    return errno = EINTR, -1;
  }
  return 0;
}

void fill_random(void* bytes, std::size_t size) {
  auto* to = static_cast<unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<unsigned char>(kernel->random.next());
}

}  // namespace

extern "C" {

int pthread_create(pthread_t* made, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) noexcept {
  REAL(pthread_create);
  if (self == nullptr) return real_pthread_create(made, attributes, start, argument);
  kernel->start_thread(self->process, start, argument, made, attributes);
  kernel->enter();
  return 0;
}

int pthread_join(pthread_t thread, void** result) {
  REAL(pthread_join);
  if (self == nullptr) return real_pthread_join(thread, result);
  kernel->enter();
  while (true) {
    xoe::sim::Thread* found = nullptr;
    for (xoe::sim::Thread* one : self->process->threads)
      if (pthread_equal(one->real, thread) != 0) found = one;
    if (found == nullptr) return real_pthread_join(thread, result);
    found->joiners.add(self);
    kernel->wait(kForever);
    found->joiners.remove(self);
  }
}

// The C library would wait for one that was interrupted there.
int pthread_once(pthread_once_t* control, void (*run)()) {
  REAL(pthread_once);
  constexpr int kState = 3, kInProgress = 1;  // of glibc
  if (self != nullptr)
    while ((*reinterpret_cast<volatile int*>(control) & kState) == kInProgress)
      kernel->wait(kernel->now() + xoe::sim::kMicro);
  return real_pthread_once(control, run);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  REAL(pthread_mutex_lock);
  if (self == nullptr) return real_pthread_mutex_lock(mutex);
  return lock(mutex, kForever);
}

int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* limit) noexcept {
  REAL(pthread_mutex_clocklock);
  if (self == nullptr) return real_pthread_mutex_clocklock(mutex, clock, limit);
  return lock(mutex, until(clock, *limit));
}

int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* limit) noexcept {
  return pthread_mutex_clocklock(mutex, CLOCK_REALTIME, limit);
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  REAL(pthread_mutex_unlock);
  if (self == nullptr) return real_pthread_mutex_unlock(mutex);
  return unlock(mutex);
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  REAL(pthread_cond_wait);
  if (self == nullptr) return real_pthread_cond_wait(condition, mutex);
  return wait_for_condition(condition, mutex, kForever);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* limit) {
  REAL(pthread_cond_clockwait);
  if (self == nullptr) return real_pthread_cond_clockwait(condition, mutex, clock, limit);
  return wait_for_condition(condition, mutex, until(clock, *limit));
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* limit) {
  REAL(pthread_cond_timedwait);
  if (self == nullptr) return real_pthread_cond_timedwait(condition, mutex, limit);
  return wait_for_condition(condition, mutex, until(CLOCK_REALTIME, *limit));
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  REAL(pthread_cond_signal);
  if (self == nullptr) return real_pthread_cond_signal(condition);
  wake_at(word_at(condition), false);
  kernel->enter();
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  REAL(pthread_cond_broadcast);
  if (self == nullptr) return real_pthread_cond_broadcast(condition);
  wake_at(word_at(condition), true);
  kernel->enter();
  return 0;
}

int clock_gettime(clockid_t clock, timespec* out) noexcept {
  REAL(clock_gettime);
  if (self == nullptr || !is_simulated(clock)) return real_clock_gettime(clock, out);
  kernel->enter();
  if (kernel->options.parallel)
    kernel->wait(kernel->now() + 1 + kernel->cost(kClockCost / 4));
  else
    kernel->pass(kClockCost);
  const Time shown = kernel->now() + origin_of(clock);
  *out = {.tv_sec = shown / kSecond, .tv_nsec = shown % kSecond};
  return 0;
}

int gettimeofday(timeval* out, void* zone) noexcept {
  REAL(gettimeofday);
  if (self == nullptr) return real_gettimeofday(out, zone);
  timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  *out = {.tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* out) noexcept {
  REAL(time);
  if (self == nullptr) return real_time(out);
  timespec shown;
  clock_gettime(CLOCK_REALTIME, &shown);
  if (out != nullptr) *out = shown.tv_sec;
  return shown.tv_sec;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* wanted, timespec* left) {
  REAL(clock_nanosleep);
  if (self == nullptr || !is_simulated(clock)) return real_clock_nanosleep(clock, flags, wanted, left);
  kernel->enter();
  const Time end = (flags & TIMER_ABSTIME) != 0 ? until(clock, *wanted) : kernel->now() + time_of(*wanted);
  const int result = sleep_until(end);
  if (result != 0 && left != nullptr) {
    const Time rest = std::max<Time>(end - kernel->now(), 0);
    *left = {.tv_sec = rest / kSecond, .tv_nsec = rest % kSecond};
  }
  return result;
}

int nanosleep(const timespec* wanted, timespec* left) {
  const int result = clock_nanosleep(CLOCK_MONOTONIC, 0, wanted, left);
  if (result == 0) return 0;
  errno = result;
  return -1;
}

int usleep(useconds_t time) {
  const timespec wanted{.tv_sec = time / 1'000'000, .tv_nsec = static_cast<long>(time % 1'000'000) * 1000};
  return nanosleep(&wanted, nullptr);
}

unsigned sleep(unsigned seconds) {
  const timespec wanted{.tv_sec = seconds, .tv_nsec = 0};
  nanosleep(&wanted, nullptr);
  return 0;
}

int sched_yield() noexcept {
  REAL(sched_yield);
  if (self == nullptr) return real_sched_yield();
  kernel->enter();
  kernel->wait(kernel->now() + kernel->cost(200'000) + 1);  // others have work to do meanwhile
  return 0;
}

ssize_t getrandom(void* bytes, size_t size, unsigned flags) {
  REAL(getrandom);
  if (self == nullptr) return real_getrandom(bytes, size, flags);
  fill_random(bytes, size);
  return static_cast<ssize_t>(size);
}

long syscall(long number, ...) noexcept {
  using Syscall = long(long, ...);
  static auto* const real_syscall = xoe::sim::real<Syscall>("syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& one : a) one = va_arg(list, long);
  va_end(list);
  if (self == nullptr) return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  kernel->enter();
  switch (number) {
    case SYS_futex:
      return futex(reinterpret_cast<int*>(a[0]), static_cast<int>(a[1]), static_cast<int>(a[2]),
                   reinterpret_cast<const timespec*>(a[3]));
    case SYS_getrandom: fill_random(reinterpret_cast<void*>(a[0]), static_cast<std::size_t>(a[1])); return a[1];
    case SYS_gettid: return self->id;
    case SYS_pidfd_open: {
      xoe::sim::Process* const process = kernel->find(static_cast<pid_t>(a[0]));
      if (process == nullptr || process->reaped) return errno = ESRCH, -1;
      return kernel->add_descriptor(make_process_watch(*process), true);
    }
    default: return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
}

}  // extern "C"
