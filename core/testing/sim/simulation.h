// Runs real programs, unchanged, on simulated hosts: one at a time, in virtual time, as a seed says.
//
// The seam is the C library. Programs that are linked with xoe_sim find here what they call of it that waits, tells the
// time, draws a number, or reaches another process: threads, locks, sleeps, sockets, pipes, signals, child processes.
// Everything else, files included, is the real one. Each simulated process has its own copy of the writable data of the
// program, its own descriptors, variables and signals; they share one address space.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace xoe::sim {

using Time = std::int64_t;  // nanoseconds since the simulation began
inline constexpr Time kMicro = 1'000, kMilli = 1'000'000, kSecond = 1'000'000'000;
inline constexpr Time kForever = INT64_MAX;

// A program: what main() would be. Its name is the last part of the path by which execve() finds it.
using Program = std::function<int(int argc, char** argv)>;

struct Options {
  std::uint64_t seed = 1;
  double preempt = 0.05;        // in a call, another thread runs first
  double short_read = 0.1;      // a read or write does less than it could
  Time latency = 100 * kMicro;  // of a message between hosts, at least
  Time jitter = 400 * kMicro;   // at most more
  double slow_message = 0.001;  // a message takes `slow` more
  Time slow = 50 * kMilli;
  int cpus = 1;             // of a host: fewer than threads, so that those that wait do not spin
  Time spawn = 2 * kMilli;  // at most, to start a program
  // Each thread has a processor of its own, and its calls take the time of no other thread. Otherwise the calls of all
  // hosts take their time one after another, which is faster to simulate; but it adds up where hosts are many.
  bool parallel = false;
};

// What a simulated host is told, and what it has.
class Host {
 public:
  explicit Host(void* machine) : machine_(machine) {}
  // Starts a program whose parent is the host itself. Returns its pid.
  pid_t start(const std::vector<std::string>& words, const std::vector<std::string>& variables = {}) const;
  void kill_all(int signal) const;
  // No message leaves or reaches it any more and nothing runs: the plug is pulled.
  void switch_off() const;
  // It starts again, with a clock that was kept right, and without what ran on it.
  void switch_on() const;
  bool is_on() const;
  // A tunnel, as ssh makes it: connections to this port of its loopback go to the same port of the other's.
  void tunnel(int port, const Host& to) const;
  // Its processes stand still; its kernel goes on.
  void pause(bool stands) const;
  // CLOCK_REALTIME jumps by so much.
  void jump(Time by) const;
  const std::string& name() const;
  const std::string& address() const;
  // What its programs have written to stdout and stderr so far, each line behind its virtual time.
  const std::string& output() const;
  std::vector<pid_t> processes() const;
  void* machine() const { return machine_; }

 private:
  void* machine_;
};

struct ProcessFacts {
  pid_t pid = 0;
  std::string host, name;
  bool ended = false;
  int status = 0;  // of wait()
};

// The calls for a scenario, which runs as a thread of its own outside of all hosts.
Host add_host(const std::string& name, const std::string& address);
void add_program(const std::string& name, Program program);
// Whether messages from one host are lost on their way to the other. TCP sends them again when they are not.
void cut_link(const Host& from, const Host& to, bool cut);
void sleep_for(Time time);
Time now();
// Until the process has ended, or for so long; whether it has.
bool wait_for_end(pid_t pid, Time longest);
ProcessFacts facts_of(pid_t pid);
std::vector<ProcessFacts> running();
// Returns the lines that it and its descendants wrote, without times.
std::string output_of(pid_t pid);
// With which its program was started; empty: it has none of this name.
std::string variable_of(pid_t pid, const std::string& name);
void signal_process(pid_t pid, int signal);
// For the files of a program that the simulator has other versions of, because they read /proc or copy a process.
std::vector<pid_t> children_of_caller();
std::vector<pid_t> processes_of_this_host();
const std::string& name_of_this_host();
bool is_ending(pid_t pid);
// A process with a copy of the caller's data, which runs this and ends; both share the memory behind pointers.
pid_t start_copy_of_caller(std::function<void()> run);
// A number below the limit, of the seed.
std::uint64_t draw(std::uint64_t limit);
// Of all decisions so far: two runs of one seed have the same.
std::uint64_t digest();
std::uint64_t calls();

// Runs the scenario in this process, which must have one thread, and returns what it returns. Afterwards the process
// has to end: threads of it are left where they were.
int simulate(const Options& options, const std::function<int()>& scenario);

// Makes addresses of memory the same in each run: starts this program again where they are not. Call it first.
void fix_addresses(char** argv);

}  // namespace xoe::sim
