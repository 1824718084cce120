// The parts of the simulated kernel, for each other.
//
// One thread runs at a time: it holds the turn. It gives the turn away where it would wait, and now and then in a call.
// Whatever runs next follows from the seed alone.
#pragma once

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/testing/sim/simulation.h"

namespace xoe::sim {

inline constexpr Time kUptime = 5'000 * kSecond;  // of a machine when the simulation begins, at least

struct Thread;
struct Process;
class Object;
using ObjectPtr = std::shared_ptr<Object>;

// xorshift64*, seeded by splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed);
  std::uint64_t next();
  std::uint64_t below(std::uint64_t limit) { return limit <= 1 ? 0 : next() % limit; }
  bool chance(double probability);

 private:
  std::uint64_t state_;
};

// Threads that wait for something; each waits in a loop, so that it may be woken in vain.
class WaitQueue {
 public:
  void add(Thread* thread) { threads_.push_back(thread); }
  void remove(Thread* thread) { std::erase(threads_, thread); }
  void wake_all();
  void wake_one();
  bool empty() const { return threads_.empty(); }

 private:
  std::vector<Thread*> threads_;
};

struct Thread {
  Process* process = nullptr;
  pthread_t real = {};
  std::atomic<int> turn = 0;  // futex: 1 once it may run
  int id = 0;
  bool ready = false;
  bool dead = false;
  std::uint64_t wait = 0;  // the number of its wait; a timer of an earlier one is void
  bool timed_out = false;
  bool interrupted = false;
  sigset_t blocked = {}, pending = {};  // pending: of this thread alone
  void* (*start)(void*) = nullptr;
  void* argument = nullptr;
  WaitQueue joiners;
};

// The writable data of the programs, as one process has them.
struct Image {
  std::vector<char> bytes;
  std::uint64_t number = 0;
};

struct Descriptor {
  ObjectPtr object;
  bool close_on_exec = false;
};

struct Machine;

struct Process {
  pid_t pid = 0, parent = 0, group = 0, session = 0;
  Machine* machine = nullptr;
  std::string name;
  std::shared_ptr<Image> image;
  std::map<int, Descriptor> descriptors;
  std::vector<std::string> words, variables;
  std::vector<char*> argv, envp;
  char** environment = nullptr;
  std::vector<Thread*> threads;
  sigset_t pending = {};
  std::map<int, struct sigaction> actions;
  bool subreaper = false, stopped = false, ended = false, reaped = false;
  int parent_death_signal = 0;
  int status = 0;
  std::shared_ptr<WaitQueue> vforked;  // its parent, until it has another program
  WaitQueue children_changed;
  WaitQueue signal_waiters;                     // in sigtimedwait()
  std::shared_ptr<std::string> output;          // what it and its descendants wrote
  std::vector<std::weak_ptr<Object>> watchers;  // pidfds and signalfds
  bool frozen() const;
  bool blocks(int signal) const;  // all its threads do
};

struct Machine {
  std::string name, address;
  std::uint32_t number = 0;  // the address
  bool on = true, paused = false;
  Time clock_ahead = 0;                    // of CLOCK_REALTIME
  Time boot_offset = 0;                    // of CLOCK_MONOTONIC
  std::map<int, ObjectPtr> listening;      // by port
  std::map<std::string, ObjectPtr> names;  // abstract unix addresses
  int next_port = 40000;
  std::map<int, Machine*> tunnels;  // by port of its loopback: to the same port of that machine's
  int boot_identity = -1;           // a real file with it; -1: not made yet
  std::string output;
};

// Messages between two machines that arrive in their order, whatever becomes of the link.
struct Lane {
  std::deque<std::function<void()>> messages;
  Time last = 0;  // when the last one arrives, as long as the link is whole
};
using LanePtr = std::shared_ptr<Lane>;

struct Timer {
  Time at = 0;
  std::uint64_t order = 0;
  Thread* thread = nullptr;
  std::uint64_t wait = 0;
  std::shared_ptr<std::function<void()>> call;
  bool operator>(const Timer& other) const { return at != other.at ? at > other.at : order > other.order; }
};

class Kernel {
 public:
  Kernel(const Options& options);

  // --- scheduling (scheduler.cc)
  Time now() const { return now_; }
  void at(Time when, std::function<void()> call);
  // Waits until it is woken, or until then. False: it timed out.
  bool wait(Time until);
  void wake(Thread* thread);
  // Begins each call: it takes a little time, delivers signals, and may let another thread run.
  void enter();
  void yield();
  Thread* start_thread(Process* process, void* (*start)(void*), void* argument, pthread_t* real,
                       const pthread_attr_t* attributes);
  void end_thread(Thread* thread);
  // The thread never runs again. Its real one, which waits for its turn, ends, and gives back its stack.
  void discard(Thread* thread);
  // The caller's process is dead, or its program was replaced: it never returns.
  [[noreturn]] void park();
  void thaw(Process& process);
  // Time passes while the caller computes.
  void pass(Time most) { now_ += cost(most); }
  Time cost(Time most) { return static_cast<Time>(random.below(static_cast<std::uint64_t>(most))); }

  // --- processes (processes.cc)
  Process& current() const;
  Process* find(pid_t pid) const;
  Process& make_process(Machine& machine, const Process* parent);
  std::shared_ptr<Image> make_image();
  void end_process(Process& process, int status);
  // Its parent has learnt of its end: no list has it any more.
  void reap(Process& process);
  void raise(Process& process, int signal);
  void raise_in_caller(int signal);  // as SIGPIPE, for the thread that caused it
  void deliver_signals();
  bool has_signal() const;  // for the caller
  void close_all(Process& process, bool on_exec);
  pid_t wait_for(pid_t which, int* status, int flags, bool keep);
  int execute(const char* path, char* const* argv, char* const* envp);
  // Puts the data of this process in its place, and keeps that of the one before.
  void load(Process& process);
  void save();
  // Reparents, and removes processes that no parent will wait for.
  void adopt_children(Process& process);
  std::vector<Process*> all_processes() const;

  // --- descriptors (descriptors.cc)
  int add_descriptor(ObjectPtr object, bool close_on_exec, int at_least = kFirstDescriptor);
  ObjectPtr object_of(int fd) const;
  int close(int fd);
  int poll(pollfd* entries, std::size_t count, Time until);

  // --- network (network.cc)
  Time delay(const Machine& from, const Machine& to);
  bool cut(const Machine& from, const Machine& to) const;
  Machine* machine_at(std::uint32_t address) const;
  // Runs `arrive` when a message that is sent now arrives; not at all where a machine is switched off meanwhile.
  void send_between(Machine& from, Machine& to, const LanePtr& lane, std::function<void()> arrive);
  void heal();

  static constexpr int kFirstDescriptor = 1 << 20;
  Options options;
  Random random;
  std::vector<std::unique_ptr<Machine>> machines;
  std::map<pid_t, std::unique_ptr<Process>> processes;
  std::map<pid_t, std::unique_ptr<Process>> reaped;
  std::map<std::string, Program> programs;  // by the last part of the path
  std::set<std::pair<const Machine*, const Machine*>> cuts;
  std::vector<std::function<void()>> held;  // arrivals over links that are cut
  std::uint64_t digest = 0;                 // of all decisions
  std::uint64_t calls = 0;
  pid_t next_pid = 1000;
  std::uint64_t ready_order = 0;
  Process* scenario = nullptr;  // it ends as a real process does
  std::shared_ptr<Image> first_image;
  std::shared_ptr<Image> loaded;  // whose data is in place
  Process* placed = nullptr;      // whose variables are in place

  void note(std::uint64_t value) { digest = (digest ^ value) * 0x100000001b3ULL + (digest >> 29); }

 private:
  Thread* choose();
  void pass_to(Thread* next);
  void run_due();
  bool run_next_timer();
  void arrive_later(Machine& from, Machine& to, const LanePtr& lane);

  Time now_ = 0;
  std::uint64_t orders_ = 0;
  std::uint64_t images_ = 0;
  int threads_ = 0;
  std::vector<pthread_t> ending_;  // real threads that were told to end
  std::vector<Thread*> ready_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
};

// True for an address in the data of which each process has its own copy.
bool is_program_data(const void* address);

extern Kernel* kernel;             // of this process; nullptr outside a simulation
extern thread_local Thread* self;  // the caller, in a simulation

// An open file description.
class Object : public std::enable_shared_from_this<Object> {
 public:
  virtual ~Object() = default;
  virtual short ready() = 0;  // the events of poll()
  virtual ssize_t read(void* bytes, std::size_t size, bool waits, int flags);
  virtual ssize_t write(const void* bytes, std::size_t size, bool waits);
  virtual void on_last_close() {}
  virtual int real() const { return -1; }  // a descriptor of the real kernel

  // Wakes those that wait for what poll() says of it.
  void changed();

  bool nonblocking = false;
  int references = 0;  // descriptors
  std::uint64_t changed_at = 0;
  WaitQueue waiters;
  std::vector<std::weak_ptr<Object>> watchers;  // epolls
  // Waits until `done` holds; false, with errno, where it may not wait or a signal came.
  bool wait_until(bool waits, const std::function<bool()>& done);
};

// A process that runs `run`, with a copy of the caller's data, or with the same.
pid_t start_copy(int (*run)(void*), void* argument, bool shares_data);
// Memory that processes share is mapped by each at an address of its own: one word of it has one name for all.
void note_mapping(void* address, std::size_t size, int fd, std::int64_t at);
void forget_mapping(void* address);
std::pair<std::uint64_t, std::uint64_t> shared_word(const void* address);
ObjectPtr make_real_file(int fd);
int open_path(const char* path, int flags, mode_t mode);
ObjectPtr make_signal_source(Process& process, const sigset_t& set);
ObjectPtr make_process_watch(Process& process);

}  // namespace xoe::sim
