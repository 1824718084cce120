// The C library's processes and signals, as a simulation has them.
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "core/testing/sim/kernel.h"
#include "core/testing/sim/real.h"

namespace {

using xoe::sim::kernel;
using xoe::sim::kForever;
using xoe::sim::Process;
using xoe::sim::self;

struct Cloned {
  int (*run)(void*);
  void* argument;
};

// Runs as the first thread of a process that clone() has made.
void* run_clone(void* given) {
  const Cloned cloned = *static_cast<Cloned*>(given);
  delete static_cast<Cloned*>(given);
  const int code = cloned.run(cloned.argument);
  kernel->end_process(kernel->current(), (code & 0xff) << 8);
  kernel->park();
}

// Returns the signal, or -1 with errno.
int await_signal(const sigset_t& set, siginfo_t* info, xoe::sim::Time until) {
  Process& process = kernel->current();
  while (true) {
    for (int signal = 1; signal < SIGRTMAX; ++signal) {
      sigset_t& pending = ::sigismember(&self->pending, signal) == 1 ? self->pending : process.pending;
      if (::sigismember(&set, signal) != 1 || ::sigismember(&pending, signal) != 1) continue;
      ::sigdelset(&pending, signal);
      if (info != nullptr) {
        *info = {};
        info->si_signo = signal;
        info->si_code = signal == SIGCHLD ? int{CLD_EXITED} : int{SI_USER};
      }
      return signal;
    }
    if (until <= kernel->now()) return errno = EAGAIN, -1;
    process.signal_waiters.add(self);
    const bool woken = kernel->wait(until);
    process.signal_waiters.remove(self);
    if (std::exchange(self->interrupted, false)) {
      kernel->deliver_signals();
      return errno = EINTR, -1;
    }
    if (!woken) until = kernel->now();
  }
}

int send(Process& process, int signal) {
  kernel->raise(process, signal);
  return 0;
}

}  // namespace

namespace xoe::sim {

pid_t start_copy(int (*run)(void*), void* argument, bool shares_data) {
  Process& parent = kernel->current();
  kernel->load(parent);
  Process& child = kernel->make_process(*parent.machine, &parent);
  child.words = parent.words;
  if (shares_data) {
    child.image = parent.image;
  } else if (kernel->loaded != nullptr) {
    kernel->save();
    child.image->bytes = parent.image->bytes;
  }
  kernel->start_thread(&child, &run_clone, new Cloned{run, argument}, nullptr, nullptr);
  return child.pid;
}

}  // namespace xoe::sim

extern "C" {

pid_t getpid() noexcept {
  REAL(getpid);
  return self == nullptr ? real_getpid() : self->process->pid;
}

pid_t getppid() noexcept {
  REAL(getppid);
  return self == nullptr ? real_getppid() : self->process->parent;
}

pid_t getpgrp() noexcept {
  REAL(getpgrp);
  return self == nullptr ? real_getpgrp() : self->process->group;
}

pid_t gettid() noexcept {
  REAL(gettid);
  return self == nullptr ? real_gettid() : self->id;
}

int setpgid(pid_t pid, pid_t group) noexcept {
  REAL(setpgid);
  if (self == nullptr) return real_setpgid(pid, group);
  kernel->enter();
  Process* const process = pid == 0 ? self->process : kernel->find(pid);
  if (process == nullptr) return errno = ESRCH, -1;
  process->group = group == 0 ? process->pid : group;
  return 0;
}

pid_t setsid() noexcept {
  REAL(setsid);
  if (self == nullptr) return real_setsid();
  self->process->session = self->process->group = self->process->pid;
  return self->process->pid;
}

int prctl(int option, ...) noexcept {
  using Prctl = int(int, ...);
  static auto* const real_prctl = xoe::sim::real<Prctl>("prctl");
  va_list list;
  va_start(list, option);
  unsigned long a[4];
  for (unsigned long& one : a) one = va_arg(list, unsigned long);
  va_end(list);
  if (self == nullptr) return real_prctl(option, a[0], a[1], a[2], a[3]);
  if (option == PR_SET_CHILD_SUBREAPER) self->process->subreaper = a[0] != 0;
  if (option == PR_SET_PDEATHSIG) self->process->parent_death_signal = static_cast<int>(a[0]);
  return 0;
}

int clone(int (*run)(void*), void* stack, int flags, void* argument, ...) noexcept {
  using Clone = int(int (*)(void*), void*, int, void*, ...);
  static auto* const real_clone = xoe::sim::real<Clone>("clone");
  va_list list;
  va_start(list, argument);
  int* const watch = va_arg(list, int*);
  va_end(list);
  if (self == nullptr) return real_clone(run, stack, flags, argument, watch);
  kernel->enter();
  const pid_t pid = xoe::sim::start_copy(run, argument, (flags & CLONE_VM) != 0);
  Process& child = *kernel->find(pid);
  if ((flags & CLONE_PIDFD) != 0) *watch = kernel->add_descriptor(make_process_watch(child), true);
  if ((flags & CLONE_VFORK) != 0) {
    child.vforked = std::make_shared<xoe::sim::WaitQueue>();
    const auto queue = child.vforked;
    while (child.vforked == queue && !child.ended) {
      queue->add(self);
      kernel->wait(kForever);
      queue->remove(self);
    }
  }
  return pid;
}

int execve(const char* path, char* const* argv, char* const* envp) noexcept {
  REAL(execve);
  if (self == nullptr) return real_execve(path, argv, envp);
  kernel->enter();
  kernel->wait(kernel->now() + 1 + kernel->cost(kernel->options.spawn));
  return kernel->execute(path, argv, envp);
}

// The C library has one list for all, which it would take from one process for another.
int setenv(const char* name, const char* value, int replace) noexcept {
  REAL(setenv);
  if (self == nullptr) return real_setenv(name, value, replace);
  const std::string begin = std::string(name) + "=";
  std::size_t count = 0, at = SIZE_MAX;
  for (; environ != nullptr && environ[count] != nullptr; ++count)
    if (std::strncmp(environ[count], begin.c_str(), begin.size()) == 0) at = count;
  if (at != SIZE_MAX && replace == 0) return 0;
  auto** list = new char*[count + 2];
  std::copy_n(environ, count, list);
  list[at == SIZE_MAX ? count++ : at] = ::strdup((begin + value).c_str());
  list[count] = nullptr;
  environ = list;
  return 0;
}

int execv(const char* path, char* const* argv) noexcept { return execve(path, argv, environ); }

[[noreturn]] void _exit(int code) {
  REAL(_exit);
  if (self == nullptr || self->process == kernel->scenario) real__exit(code);
  kernel->end_process(kernel->current(), (code & 0xff) << 8);
  kernel->park();
}

[[noreturn]] void _Exit(int code) noexcept { _exit(code); }

[[noreturn]] void exit(int code) noexcept {
  REAL(exit);
  if (self == nullptr || self->process == kernel->scenario) real_exit(code);
  _exit(code);
}

int kill(pid_t pid, int signal) noexcept {
  REAL(kill);
  if (self == nullptr) return real_kill(pid, signal);
  kernel->enter();
  Process& sender = kernel->current();
  int found = 0;
  for (Process* process : kernel->all_processes()) {
    if (process->reaped || process->machine != sender.machine) continue;
    const bool meant = pid > 0    ? process->pid == pid
                       : pid == 0 ? process->group == sender.group
                                  : process->group == -pid;
    if (!meant) continue;
    ++found;
    send(*process, signal);
  }
  if (self->dead) kernel->park();
  if (kernel->has_signal()) kernel->deliver_signals();
  return found > 0 ? 0 : (errno = ESRCH, -1);
}

pid_t waitpid(pid_t pid, int* status, int flags) {
  REAL(waitpid);
  if (self == nullptr) return real_waitpid(pid, status, flags);
  kernel->enter();
  return kernel->wait_for(pid, status, flags, false);
}

int waitid(idtype_t type, id_t id, siginfo_t* info, int flags) {
  REAL(waitid);
  if (self == nullptr) return real_waitid(type, id, info, flags);
  kernel->enter();
  int status = 0;
  const pid_t which = type == P_PID ? static_cast<pid_t>(id) : -1;
  const pid_t pid = kernel->wait_for(which, &status, flags, (flags & WNOWAIT) != 0);
  if (pid < 0) return -1;
  if (info != nullptr) {
    *info = {};
    info->si_pid = pid;
    info->si_signo = pid > 0 ? SIGCHLD : 0;
    info->si_code = WIFSIGNALED(status) ? CLD_KILLED : CLD_EXITED;
    info->si_status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
  return 0;
}

int sigprocmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  REAL(sigprocmask);
  if (self == nullptr) return real_sigprocmask(how, set, before);
  Process& process = kernel->current();
  if (before != nullptr) *before = self->blocked;
  if (set == nullptr) return 0;
  for (int signal = 1; signal < SIGRTMAX; ++signal) {
    const bool named = ::sigismember(set, signal) == 1;
    if (how == SIG_SETMASK ? !named : how == SIG_UNBLOCK && named) ::sigdelset(&self->blocked, signal);
    if (named && how != SIG_UNBLOCK) ::sigaddset(&self->blocked, signal);
  }
  // Signals that were blocked take effect now.
  for (int signal = 1; signal < SIGRTMAX; ++signal)
    for (sigset_t* const pending : {&process.pending, &self->pending})
      if (::sigismember(pending, signal) == 1 && ::sigismember(&self->blocked, signal) != 1) {
        ::sigdelset(pending, signal);
        kernel->raise(process, signal);
      }
  if (self->dead) kernel->park();
  if (kernel->has_signal()) kernel->deliver_signals();
  return 0;
}

int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  REAL(pthread_sigmask);
  return self == nullptr ? real_pthread_sigmask(how, set, before) : sigprocmask(how, set, before);
}

int sigaction(int signal, const struct sigaction* action, struct sigaction* before) noexcept {
  REAL(sigaction);
  if (self == nullptr) return real_sigaction(signal, action, before);
  auto& actions = self->process->actions;
  const auto found = actions.find(signal);
  if (before != nullptr) {
    *before = {};
    if (found != actions.end()) *before = found->second;
  }
  if (action != nullptr) actions[signal] = *action;
  return 0;
}

sighandler_t signal(int number, sighandler_t handler) noexcept {
  struct sigaction action = {}, before = {};
  action.sa_handler = handler;
  sigaction(number, &action, &before);
  return before.sa_handler;
}

int sigtimedwait(const sigset_t* set, siginfo_t* info, const timespec* limit) {
  REAL(sigtimedwait);
  if (self == nullptr) return real_sigtimedwait(set, info, limit);
  kernel->enter();
  return await_signal(
      *set, info,
      limit == nullptr ? kForever : kernel->now() + xoe::sim::Time{limit->tv_sec} * xoe::sim::kSecond + limit->tv_nsec);
}

int sigwait(const sigset_t* set, int* signal) {
  REAL(sigwait);
  if (self == nullptr) return real_sigwait(set, signal);
  kernel->enter();
  int found = -1;
  while (found < 0) found = await_signal(*set, nullptr, kForever);
  *signal = found;
  return 0;
}

int sigpending(sigset_t* set) noexcept {
  REAL(sigpending);
  if (self == nullptr) return real_sigpending(set);
  *set = self->process->pending;
  for (int signal = 1; signal < SIGRTMAX; ++signal)
    if (::sigismember(&self->pending, signal) == 1) ::sigaddset(set, signal);
  return 0;
}

// A copy of this process would have no simulation: see start_copy_of_caller().
pid_t fork() noexcept {
  REAL(fork);
  if (self == nullptr) return real_fork();
  std::fputs("simulator: a program calls fork(): what does so needs another version here\n", stderr);
  std::abort();
}

int execvp(const char* path, char* const* argv) noexcept {
  REAL(execvp);
  return self == nullptr ? real_execvp(path, argv) : execve(path, argv, environ);
}

int setrlimit(__rlimit_resource_t resource, const rlimit* limit) noexcept {
  REAL(setrlimit);
  return self == nullptr ? real_setrlimit(resource, limit) : 0;
}

int getrlimit(__rlimit_resource_t resource, rlimit* limit) noexcept {
  REAL(getrlimit);
  if (self == nullptr) return real_getrlimit(resource, limit);
  *limit = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
  return 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t* set) noexcept {
  REAL(sched_setaffinity);
  return self == nullptr ? real_sched_setaffinity(pid, size, set) : 0;
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t* set) noexcept {
  REAL(sched_getaffinity);
  if (self == nullptr) return real_sched_getaffinity(pid, size, set);
  std::memset(set, 0, size);
  for (int cpu = 0; cpu < kernel->options.cpus; ++cpu) CPU_SET(cpu, set);
  return 0;
}

int gethostname(char* name, size_t size) noexcept {
  REAL(gethostname);
  if (self == nullptr) return real_gethostname(name, size);
  std::snprintf(name, size, "%s", self->process->machine->name.c_str());
  return 0;
}

int uname(utsname* out) noexcept {
  REAL(uname);
  const int result = real_uname(out);
  if (self != nullptr) std::snprintf(out->nodename, sizeof out->nodename, "%s", self->process->machine->name.c_str());
  return result;
}

// A program that the simulation has is found under any folder.
int stat(const char* path, struct stat* out) noexcept {
  REAL(stat);
  if (self == nullptr || kernel->programs.count(std::string(path).substr(std::string(path).rfind('/') + 1)) == 0)
    return real_stat(path, out);
  *out = {};
  out->st_mode = S_IFREG | 0755;
  return 0;
}

int access(const char* path, int mode) noexcept {
  REAL(access);
  struct stat found;
  if (self == nullptr) return real_access(path, mode);
  return stat(path, &found) == 0 && (found.st_mode & 0111) != 0 ? 0 : real_access(path, mode);
}

ssize_t readlink(const char* path, char* out, size_t size) noexcept {
  REAL(readlink);
  if (self == nullptr || std::strcmp(path, "/proc/self/exe") != 0) return real_readlink(path, out, size);
  const std::string own = "/sim/" + self->process->name;
  const std::size_t count = std::min(size, own.size());
  std::memcpy(out, own.data(), count);
  return static_cast<ssize_t>(count);
}

// A library that looks for its own symbols first would find the C library's before the simulator's.
void* dlopen(const char* path, int flags) noexcept {
  REAL(dlopen);
  return real_dlopen(path, self == nullptr ? flags : flags & ~RTLD_DEEPBIND);
}

int chdir(const char* path) noexcept {
  REAL(chdir);
  return self == nullptr ? real_chdir(path) : 0;
}

}  // extern "C"
