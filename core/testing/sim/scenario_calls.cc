// What scenarios call.
#include "core/testing/sim/simulation.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <sys/personality.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/testing/sim/kernel.h"
#include "core/testing/sim/objects.h"
#include "core/testing/sim/real.h"

namespace xoe::sim {
namespace {

Machine& machine_of(const Host& host) { return *static_cast<Machine*>(host.machine()); }

void add_standard_streams(Process& process) {
  const ObjectPtr nothing = make_pipe()[0];
  process.output = std::make_shared<std::string>();
  const ObjectPtr sink = make_sink(*process.machine, process.output);
  nothing->references = 1;
  sink->references = 2;
  process.descriptors[0] = {.object = nothing};
  process.descriptors[1] = {.object = sink};
  process.descriptors[2] = {.object = sink};
}

std::vector<pid_t> processes_of(const Machine& machine) {
  std::vector<pid_t> found;
  for (const Process* process : kernel->all_processes())
    if (process->machine == &machine && !process->ended) found.push_back(process->pid);
  return found;
}

struct Start {
  std::vector<std::string> words, variables;
};

int run_start(void* argument) {
  const auto* start = static_cast<Start*>(argument);
  std::vector<char*> argv, envp;
  for (const auto& word : start->words) argv.push_back(const_cast<char*>(word.c_str()));
  for (const auto& variable : start->variables) envp.push_back(const_cast<char*>(variable.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  kernel->execute(argv[0], argv.data(), envp.data());
  return 127;
}

}  // namespace

const std::string& Host::name() const { return machine_of(*this).name; }
const std::string& Host::address() const { return machine_of(*this).address; }
const std::string& Host::output() const { return machine_of(*this).output; }

pid_t Host::start(const std::vector<std::string>& words, const std::vector<std::string>& variables) const {
  Process& process = kernel->make_process(machine_of(*this), nullptr);
  add_standard_streams(process);
  struct Call {
    int (*run)(void*);
    void* argument;
  };
  auto* call = new Call{&run_start, new Start{words, variables}};
  kernel->start_thread(
      &process,
      [](void* given) -> void* {
        const auto* given_call = static_cast<Call*>(given);
        kernel->end_process(kernel->current(), given_call->run(given_call->argument) << 8);
        kernel->park();
      },
      call, nullptr, nullptr);
  return process.pid;
}

std::vector<pid_t> Host::processes() const { return processes_of(machine_of(*this)); }

void Host::kill_all(int signal) const {
  for (const pid_t pid : processes()) signal_process(pid, signal);
}

void Host::switch_off() const { machine_of(*this).on = false; }

void Host::switch_on() const {
  Machine& machine = machine_of(*this);
  if (machine.on) return;
  for (Process* process : kernel->all_processes())
    if (process->machine == &machine && !process->ended) kernel->end_process(*process, SIGKILL);  // in silence
  machine.on = true;
  constexpr Time kStart = 30 * kSecond;
  machine.boot_offset = kStart - kUptime - kernel->now();
  if (machine.boot_identity >= 0) ::close(machine.boot_identity);
  machine.boot_identity = -1;
}

bool Host::is_on() const { return machine_of(*this).on; }

void Host::tunnel(int port, const Host& to) const { machine_of(*this).tunnels[port] = &machine_of(to); }

void Host::pause(bool stands) const {
  Machine& machine = machine_of(*this);
  machine.paused = stands;
  for (Process* process : kernel->all_processes())
    if (process->machine == &machine) kernel->thaw(*process);
}

void Host::jump(Time by) const { machine_of(*this).clock_ahead += by; }

Host add_host(const std::string& name, const std::string& address) {
  auto machine = std::make_unique<Machine>();
  machine->name = name;
  machine->address = address;
  in_addr number = {};
  ::inet_pton(AF_INET, address.c_str(), &number);
  machine->number = ntohl(number.s_addr);
  machine->boot_offset = kernel->cost(1000 * kSecond);
  kernel->machines.push_back(std::move(machine));
  return Host(kernel->machines.back().get());
}

void add_program(const std::string& name, Program program) { kernel->programs[name] = std::move(program); }

void cut_link(const Host& from, const Host& to, bool cut) {
  const std::pair<const Machine*, const Machine*> link(&machine_of(from), &machine_of(to));
  if (cut)
    kernel->cuts.insert(link);
  else if (kernel->cuts.erase(link) > 0)
    kernel->heal();
}

void sleep_for(Time time) { kernel->wait(kernel->now() + time); }
Time now() { return kernel->now(); }

bool wait_for_end(pid_t pid, Time longest) {
  const Time until = kernel->now() + longest;
  Process* const process = kernel->find(pid);
  const ObjectPtr watch = make_process_watch(*process);
  while (!process->ended && kernel->now() < until) {
    watch->waiters.add(self);
    kernel->wait(until);
    watch->waiters.remove(self);
  }
  return process->ended;
}

ProcessFacts facts_of(pid_t pid) {
  const Process* process = kernel->find(pid);
  if (process == nullptr) return {.pid = pid, .host = {}, .name = {}, .ended = true};
  return {.pid = pid,
          .host = process->machine->name,
          .name = process->name,
          .ended = process->ended,
          .status = process->status};
}

std::vector<ProcessFacts> running() {
  std::vector<ProcessFacts> all;
  for (const Process* process : kernel->all_processes())
    if (!process->ended && process->machine->on && process->pid != self->process->pid)
      all.push_back(facts_of(process->pid));
  return all;
}

std::string output_of(pid_t pid) {
  const Process* process = kernel->find(pid);
  return process == nullptr || process->output == nullptr ? std::string() : *process->output;
}

std::string variable_of(pid_t pid, const std::string& name) {
  const Process* process = kernel->find(pid);
  if (process == nullptr) return {};
  for (const std::string& one : process->variables)
    if (one.starts_with(name + "=")) return one.substr(name.size() + 1);
  return {};
}

std::vector<pid_t> processes_of_this_host() { return processes_of(*self->process->machine); }
const std::string& name_of_this_host() { return self->process->machine->name; }

void signal_process(pid_t pid, int signal) {
  if (Process* process = kernel->find(pid)) kernel->raise(*process, signal);
}

std::vector<pid_t> children_of_caller() {
  std::vector<pid_t> children;
  for (const Process* process : kernel->all_processes())
    if (process->parent == self->process->pid && !process->reaped && process != self->process)
      children.push_back(process->pid);
  return children;
}

bool is_ending(pid_t pid) {
  const Process* process = kernel->find(pid);
  return process == nullptr || process->ended;
}

pid_t start_copy_of_caller(std::function<void()> run) {
  kernel->enter();
  return start_copy(
      [](void* given) {
        (*static_cast<std::function<void()>*>(given))();
        return 0;
      },
      new std::function<void()>(std::move(run)), false);
}

std::uint64_t draw(std::uint64_t limit) { return kernel->random.below(limit); }
std::uint64_t digest() { return kernel->digest; }
std::uint64_t calls() { return kernel->calls; }

int simulate(const Options& options, const std::function<int()>& scenario) {
  ::mallopt(M_ARENA_MAX, 1);
  ::__libc_single_threaded = 0;  // the C library says so with the first thread, and only to the data in place then
  kernel = new Kernel(options);
  auto* outside = new Machine;
  outside->name = "outside";
  Process& process = kernel->make_process(*outside, nullptr);
  kernel->scenario = &process;
  process.name = "scenario";
  process.environment = ::environ;
  auto* thread = new Thread;
  thread->process = &process;
  thread->ready = true;
  process.threads.push_back(thread);
  self = thread;
  kernel->load(process);
  return scenario();
}

void fix_addresses(char** argv) {
  const int now = ::personality(0xffffffff);
  if (now < 0 || (now & ADDR_NO_RANDOMIZE) != 0) return;
  if (::personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) < 0) return;
  ::execv("/proc/self/exe", argv);
}

}  // namespace xoe::sim
