// Processes, their ends, signals, and their own copies of the programs' data.
#include <elf.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/testing/sim/kernel.h"
#include "core/testing/sim/real.h"

namespace xoe::sim {
namespace {

struct Range {
  char* begin = nullptr;
  std::size_t size = 0;
};

// What the program may write of its own data: without what is read-only once it is linked.
Range writable_data() {
  static const Range found = [] {
    Range range;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* out) {
          std::uintptr_t begin = 0, end = 0, read_only_end = 0;
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto& part = info->dlpi_phdr[i];
            const std::uintptr_t at = info->dlpi_addr + part.p_vaddr;
            if (part.p_type == PT_LOAD && (part.p_flags & PF_W) != 0) begin = at, end = at + part.p_memsz;
            if (part.p_type == PT_GNU_RELRO) read_only_end = at + part.p_memsz;
          }
          constexpr std::uintptr_t kPage = 4096;
          begin = std::max(begin, (read_only_end + kPage - 1) / kPage * kPage);
          *static_cast<Range*>(out) = {reinterpret_cast<char*>(begin), end > begin ? end - begin : 0};
          return 1;  // the program itself comes first
        },
        &range);
    return range;
  }();
  return found;
}

bool is_dropped(int signal) { return signal == SIGCHLD || signal == SIGURG || signal == SIGWINCH || signal == SIGCONT; }

bool stops(int signal) { return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU; }

struct sigaction action_of(const Process& process, int signal) {
  const auto found = process.actions.find(signal);
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  return found == process.actions.end() ? standard : found->second;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> copies(char* const* texts) {
  std::vector<std::string> all;
  for (; texts != nullptr && *texts != nullptr; ++texts) all.emplace_back(*texts);
  return all;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

bool is_program_data(const void* address) {
  const Range data = writable_data();
  const auto* const at = static_cast<const char*>(address);
  return at >= data.begin && at < data.begin + data.size;
}

Process& Kernel::current() const { return *self->process; }

Process* Kernel::find(pid_t pid) const {
  for (const auto* const list : {&processes, &reaped})
    if (const auto found = list->find(pid); found != list->end()) return found->second.get();
  return nullptr;
}

std::shared_ptr<Image> Kernel::make_image() {
  auto made = std::make_shared<Image>();
  made->number = ++images_;
  return made;
}

void Kernel::load(Process& process) {
  if (placed != nullptr) placed->environment = ::environ;  // setenv() may have made another list
  placed = &process;
  if (loaded == process.image) {
    ::environ = process.environment;
    return;
  }
  const Range data = writable_data();
  if (!first_image) {
    first_image = make_image();
    first_image->bytes.assign(data.begin, data.begin + data.size);
  }
  save();
  if (process.image->bytes.empty()) process.image->bytes = first_image->bytes;
  std::memcpy(data.begin, process.image->bytes.data(), data.size);
  loaded = process.image;
  ::environ = process.environment;
}

void Kernel::save() {
  const Range data = writable_data();
  if (loaded == nullptr) return;
  loaded->bytes.assign(data.begin, data.begin + data.size);
}

Process& Kernel::make_process(Machine& machine, const Process* parent) {
  auto made = std::make_unique<Process>();
  Process& process = *made;
  process.pid = next_pid++;
  process.parent = parent == nullptr ? 1 : parent->pid;
  process.group = parent == nullptr ? process.pid : parent->group;
  process.session = parent == nullptr ? process.pid : parent->session;
  process.machine = &machine;
  process.image = make_image();
  if (parent != nullptr) {
    process.descriptors = parent->descriptors;
    for (auto& [fd, descriptor] : process.descriptors) ++descriptor.object->references;
    process.actions = parent->actions;
    process.name = parent->name;
    process.environment = parent->environment;
    process.output = parent->output;
  }
  processes[process.pid] = std::move(made);
  return process;
}

std::vector<Process*> Kernel::all_processes() const {
  std::vector<Process*> all;
  for (const auto& [pid, process] : processes) all.push_back(process.get());
  return all;
}

void Kernel::close_all(Process& process, bool on_exec) {
  std::vector<ObjectPtr> closed;
  for (auto it = process.descriptors.begin(); it != process.descriptors.end();) {
    if (on_exec && !it->second.close_on_exec) {
      ++it;
      continue;
    }
    if (--it->second.object->references == 0) closed.push_back(it->second.object);
    it = process.descriptors.erase(it);
  }
  for (const ObjectPtr& object : closed) object->on_last_close();
}

void Kernel::adopt_children(Process& process) {
  Process* heir = find(process.parent);
  while (heir != nullptr && (!heir->subreaper || heir->ended)) heir = find(heir->parent);
  for (Process* child : all_processes()) {
    if (child->parent != process.pid || child == &process) continue;
    child->parent = heir == nullptr ? 1 : heir->pid;
    if (child->parent_death_signal != 0 && !child->ended) raise(*child, child->parent_death_signal);
    if (!child->ended) continue;
    if (heir == nullptr) {
      reap(*child);
    } else {
      raise(*heir, SIGCHLD);
      heir->children_changed.wake_all();
    }
  }
}

void Kernel::end_process(Process& process, int status) {
  if (process.ended) return;
  process.ended = true;
  process.status = status;
  note(static_cast<std::uint64_t>(process.pid) * 31 + static_cast<std::uint64_t>(status));
  for (Thread* thread : process.threads) discard(thread);
  close_all(process, false);
  if (process.vforked) process.vforked->wake_all();
  adopt_children(process);
  for (const auto& watcher : process.watchers)
    if (const auto object = watcher.lock()) object->changed();
  process.children_changed.wake_all();
  Process* parent = find(process.parent);
  if (parent == nullptr || parent->ended) return reap(process);
  raise(*parent, SIGCHLD);
  parent->children_changed.wake_all();
}

void Kernel::reap(Process& process) {
  process.reaped = true;
  process.image = std::make_shared<Image>();
  const auto found = processes.find(process.pid);
  if (found == processes.end()) return;
  reaped[process.pid] = std::move(found->second);
  processes.erase(found);
}

void Kernel::raise(Process& process, int signal) {
  if (process.ended || signal == 0) return;
  note(static_cast<std::uint64_t>(signal) << 8);
  if (signal == SIGKILL) return end_process(process, SIGKILL);
  if (signal == SIGCONT && process.stopped) {
    process.stopped = false;
    thaw(process);
  }
  if (signal == SIGSTOP) {
    process.stopped = true;
    return;
  }
  const auto action = action_of(process, signal);
  if (process.blocks(signal)) {
    if (action.sa_handler == SIG_IGN) return;
    ::sigaddset(&process.pending, signal);
    for (const auto& watcher : process.watchers)
      if (const auto object = watcher.lock()) object->changed();
    process.signal_waiters.wake_all();
    return;
  }
  if (action.sa_handler == SIG_IGN) return;
  if (action.sa_handler == SIG_DFL) {
    if (is_dropped(signal)) return;
    if (stops(signal)) {
      process.stopped = true;
      return;
    }
    return end_process(process, signal);
  }
  ::sigaddset(&process.pending, signal);
  for (Thread* thread : process.threads) {
    if (thread->dead || ::sigismember(&thread->blocked, signal) == 1) continue;
    thread->interrupted = true;
    wake(thread);
    break;
  }
}

void Kernel::raise_in_caller(int signal) {
  if (::sigismember(&self->blocked, signal) == 1)
    ::sigaddset(&self->pending, signal);
  else
    raise(current(), signal);
}

bool Process::blocks(int signal) const {
  return std::ranges::all_of(
      threads, [signal](const Thread* thread) { return thread->dead || ::sigismember(&thread->blocked, signal) == 1; });
}

bool Kernel::has_signal() const {
  const Process& process = current();
  for (const auto& [signal, action] : process.actions)
    if (::sigismember(&process.pending, signal) == 1 && ::sigismember(&self->blocked, signal) != 1) return true;
  return false;
}

void Kernel::deliver_signals() {
  Process& process = current();
  const auto actions = process.actions;
  for (const auto& [signal, action] : actions) {
    if (::sigismember(&process.pending, signal) != 1 || ::sigismember(&self->blocked, signal) == 1) continue;
    ::sigdelset(&process.pending, signal);
    if (action.sa_handler == SIG_IGN) continue;
    if (action.sa_handler == SIG_DFL) {
      if (!is_dropped(signal)) {
        end_process(process, signal);
        park();
      }
      continue;
    }
    const int before = errno;
    if ((action.sa_flags & SA_SIGINFO) != 0) {
      siginfo_t info = {};
      info.si_signo = signal;
      action.sa_sigaction(signal, &info, nullptr);
    } else {
      action.sa_handler(signal);
    }
    errno = before;
  }
}

pid_t Kernel::wait_for(pid_t which, int* status, int flags, bool keep) {
  Process& process = current();
  while (true) {
    bool any = false;
    for (Process* child : all_processes()) {
      if (child->parent != process.pid || child->reaped || child == &process) continue;
      if (which > 0 && child->pid != which) continue;
      if (which < -1 && child->group != -which) continue;
      any = true;
      if (!child->ended) continue;
      if (status != nullptr) *status = child->status;
      const pid_t pid = child->pid;
      if (!keep) reap(*child);
      return pid;
    }
    if (!any) {
      errno = ECHILD;
      return -1;
    }
    if ((flags & WNOHANG) != 0) return 0;
    process.children_changed.add(self);
    wait(kForever);
    process.children_changed.remove(self);
    if (std::exchange(self->interrupted, false)) {
      deliver_signals();
      errno = EINTR;
      return -1;
    }
  }
}

namespace {

// A stream of stdio that writes to a descriptor of the simulation. The pointers stdout and stderr are data of the
// program, so that each process has its own.
std::FILE* open_stream(std::intptr_t fd) {
  const cookie_io_functions_t functions{.read = nullptr,
                                        .write = [](void* to, const char* bytes, std::size_t size) -> ssize_t {
                                          return ::write(static_cast<int>(reinterpret_cast<std::intptr_t>(to)), bytes,
                                                         size);
                                        },
                                        .seek = nullptr,
                                        .close = nullptr};
  std::FILE* const stream = ::fopencookie(reinterpret_cast<void*>(fd), "w", functions);
  std::setvbuf(stream, nullptr, _IONBF, 0);
  return stream;
}

// Of the thread that runs a program from its beginning.
void* run_program(void* argument) {
  auto& process = *static_cast<Process*>(argument);
  stdout = open_stream(STDOUT_FILENO);
  stderr = open_stream(STDERR_FILENO);
  const auto found = kernel->programs.find(process.name);
  const int code = found->second(static_cast<int>(process.words.size()), process.argv.data());
  kernel->end_process(process, (code & 0xff) << 8);
  kernel->park();
}

}  // namespace

int Kernel::execute(const char* path, char* const* argv, char* const* envp) {
  const std::string name = last_part(path);
  if (!programs.contains(name)) {
    errno = ENOENT;
    return -1;
  }
  Process& process = current();
  auto words = copies(argv);
  auto variables = copies(envp);
  for (Thread* thread : process.threads)
    if (thread != self) discard(thread);
  close_all(process, true);
  process.name = name;
  process.words = std::move(words);
  process.variables = std::move(variables);
  process.argv = pointers(process.words);
  process.envp = pointers(process.variables);
  process.environment = process.envp.data();
  if (placed == &process) ::environ = process.environment;
  for (auto it = process.actions.begin(); it != process.actions.end();)
    it = it->second.sa_handler == SIG_IGN ? std::next(it) : process.actions.erase(it);
  process.image = make_image();
  if (process.vforked) process.vforked->wake_all();
  process.vforked.reset();
  start_thread(&process, &run_program, &process, nullptr, nullptr);
  std::erase(process.threads, self);
  park();
}

}  // namespace xoe::sim
