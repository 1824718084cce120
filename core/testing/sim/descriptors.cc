// Descriptors: their table, poll(), and all that is neither a socket nor a pipe.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/testing/sim/kernel.h"
#include "core/testing/sim/objects.h"
#include "core/testing/sim/real.h"

namespace xoe::sim {

ssize_t Object::read(void*, std::size_t, bool, int) {
  errno = EINVAL;
  return -1;
}

ssize_t Object::write(const void*, std::size_t, bool) {
  errno = EINVAL;
  return -1;
}

void Object::changed() {
  changed_at = ++kernel->ready_order;
  waiters.wake_all();
  for (const auto& watcher : watchers)
    if (const auto epoll = watcher.lock()) epoll->changed();
}

bool Object::wait_until(bool waits, const std::function<bool()>& done) {
  while (!done()) {
    if (!waits) {
      errno = EAGAIN;
      return false;
    }
    waiters.add(self);
    kernel->wait(kForever);
    waiters.remove(self);
    if (std::exchange(self->interrupted, false)) {
      kernel->deliver_signals();
      errno = EINTR;
      return false;
    }
  }
  return true;
}

int Kernel::add_descriptor(ObjectPtr object, bool close_on_exec, int at_least) {
  auto& table = current().descriptors;
  int fd = at_least;
  for (auto it = table.lower_bound(fd); it != table.end() && it->first == fd; ++it) ++fd;
  ++object->references;
  table[fd] = {.object = std::move(object), .close_on_exec = close_on_exec};
  return fd;
}

ObjectPtr Kernel::object_of(int fd) const {
  const auto& table = current().descriptors;
  const auto found = table.find(fd);
  return found == table.end() ? nullptr : found->second.object;
}

int Kernel::close(int fd) {
  auto& table = current().descriptors;
  const auto found = table.find(fd);
  if (found == table.end()) {
    errno = EBADF;
    return -1;
  }
  const ObjectPtr object = found->second.object;
  table.erase(found);
  if (--object->references == 0) object->on_last_close();
  return 0;
}

int Kernel::poll(pollfd* entries, std::size_t count, Time until) {
  static auto* const real_poll = real<decltype(::poll)>("poll");
  while (true) {
    int ready = 0;
    std::vector<ObjectPtr> watched;
    for (std::size_t i = 0; i < count; ++i) {
      pollfd& entry = entries[i];
      entry.revents = 0;
      if (entry.fd < 0) continue;
      const ObjectPtr object = object_of(entry.fd);
      if (object == nullptr) {
        real_poll(&entry, 1, 0);  // of the real kernel, or not open
      } else {
        entry.revents = static_cast<short>(object->ready() & (entry.events | POLLERR | POLLHUP));
        watched.push_back(object);
      }
      if (entry.revents != 0) ++ready;
    }
    if (ready > 0 || until <= now()) return ready;
    for (const ObjectPtr& object : watched) object->waiters.add(self);
    const bool woken = wait(until);
    for (const ObjectPtr& object : watched) object->waiters.remove(self);
    if (std::exchange(self->interrupted, false)) {
      deliver_signals();
      errno = EINTR;
      return -1;
    }
    if (!woken) until = now();  // looks once more
  }
}

namespace {

class RealFile final : public Object {
 public:
  explicit RealFile(int fd) : fd_(fd) {}
  ~RealFile() override { static_cast<void>(real<decltype(::close)>("close")(fd_)); }
  short ready() override { return POLLIN | POLLOUT; }
  ssize_t read(void* bytes, std::size_t size, bool, int) override {
    return real<decltype(::read)>("read")(fd_, bytes, size);
  }
  ssize_t write(const void* bytes, std::size_t size, bool) override {
    return real<decltype(::write)>("write")(fd_, bytes, size);
  }
  int real() const override { return fd_; }
  template <typename Function>
  static Function* real(const char* name) {
    return sim::real<Function>(name);
  }

 private:
  int fd_;
};

class Sink final : public Object {
 public:
  Sink(Machine& machine, std::shared_ptr<std::string> also) : machine_(machine), also_(std::move(also)) {}
  short ready() override { return POLLOUT; }
  ssize_t write(const void* bytes, std::size_t size, bool) override {
    also_->append(static_cast<const char*>(bytes), size);
    for (const char byte : std::string_view(static_cast<const char*>(bytes), size)) {
      if (machine_.output.empty() || machine_.output.back() == '\n') {
        char time[32];
        std::snprintf(time, sizeof time, "%9.3f ", static_cast<double>(kernel->now()) / 1e9);
        machine_.output += time;
      }
      machine_.output += byte;
    }
    return static_cast<ssize_t>(size);
  }
  ssize_t read(void*, std::size_t, bool, int) override { return 0; }

 private:
  Machine& machine_;
  std::shared_ptr<std::string> also_;
};

class EventCounter final : public Object {
 public:
  EventCounter(std::uint64_t value, bool semaphore) : value_(value), semaphore_(semaphore) {}
  short ready() override { return static_cast<short>(POLLOUT | (value_ > 0 ? POLLIN : 0)); }
  ssize_t read(void* bytes, std::size_t size, bool waits, int) override {
    if (size < sizeof value_) {
      errno = EINVAL;
      return -1;
    }
    if (!wait_until(waits, [this] { return value_ > 0; })) return -1;
    const std::uint64_t taken = semaphore_ ? 1 : value_;
    value_ -= taken;
    std::memcpy(bytes, &taken, sizeof taken);
    return sizeof taken;
  }
  ssize_t write(const void* bytes, std::size_t, bool) override {
    std::uint64_t added;
    std::memcpy(&added, bytes, sizeof added);
    value_ += added;
    changed();
    return sizeof added;
  }

 private:
  std::uint64_t value_;
  bool semaphore_;
};

class SignalSource final : public Object {
 public:
  SignalSource(Process& process, const sigset_t& set) : process_(process), set_(set) {}
  short ready() override { return first() != 0 ? POLLIN : 0; }
  ssize_t read(void* bytes, std::size_t size, bool waits, int) override {
    if (!wait_until(waits, [this] { return first() != 0; })) return -1;
    signalfd_siginfo info = {};
    info.ssi_signo = static_cast<std::uint32_t>(first());
    ::sigdelset(&kernel->current().pending, first());
    std::memcpy(bytes, &info, std::min(size, sizeof info));
    return static_cast<ssize_t>(std::min(size, sizeof info));
  }

 private:
  // A signalfd gives the signals of its reader.
  int first() const {
    for (int signal = 1; signal < SIGRTMAX; ++signal)
      if (::sigismember(&set_, signal) == 1 && ::sigismember(&kernel->current().pending, signal) == 1) return signal;
    return 0;
  }
  Process& process_;
  sigset_t set_;
};

class ProcessWatch final : public Object {
 public:
  explicit ProcessWatch(Process& process) : process_(process) {}
  short ready() override { return process_.ended ? POLLIN : 0; }
  pid_t pid() const { return process_.pid; }

 private:
  Process& process_;
};

}  // namespace

short Epoll::ready() { return ready_entries().empty() ? 0 : POLLIN; }

std::vector<Epoll::Entry*> Epoll::ready_entries() {
  std::vector<Entry*> ready;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto object = it->second.object.lock();
    if (object == nullptr || object->references == 0) {
      it = entries_.erase(it);
      continue;
    }
    Entry& entry = it->second;
    entry.found = static_cast<std::uint32_t>(object->ready()) & (entry.event.events | EPOLLERR | EPOLLHUP);
    if (entry.found != 0 && entry.armed) ready.push_back(&entry);
    entry.order = object->changed_at;
    ++it;
  }
  std::ranges::stable_sort(ready, {}, &Entry::order);
  return ready;
}

int Epoll::control(int operation, int fd, const ObjectPtr& object, const epoll_event* event) {
  const auto found = entries_.find(fd);
  if (operation == EPOLL_CTL_DEL || operation == EPOLL_CTL_MOD) {
    if (found == entries_.end()) return errno = ENOENT, -1;
    if (operation == EPOLL_CTL_DEL) return entries_.erase(found), 0;
  } else if (found != entries_.end() && found->second.object.lock() == object) {
    return errno = EEXIST, -1;
  }
  entries_[fd] = {.event = *event, .object = object};
  if (operation == EPOLL_CTL_ADD) object->watchers.push_back(weak_from_this());
  if (object->ready() != 0) changed();
  return 0;
}

int Epoll::wait(epoll_event* events, int most, Time until) {
  while (true) {
    int count = 0;
    for (Entry* entry : ready_entries()) {
      if (count == most) break;
      events[count] = entry->event;
      events[count++].events = entry->found;
      if ((entry->event.events & EPOLLONESHOT) != 0) entry->armed = false;
    }
    if (count > 0 || until <= kernel->now()) return count;
    waiters.add(self);
    const bool woken = kernel->wait(until);
    waiters.remove(self);
    if (std::exchange(self->interrupted, false)) {
      kernel->deliver_signals();
      errno = EINTR;
      return -1;
    }
    if (!woken) until = kernel->now();
  }
}

ObjectPtr make_real_file(int fd) { return std::make_shared<RealFile>(fd); }
ObjectPtr make_sink(Machine& machine, std::shared_ptr<std::string> also) {
  return std::make_shared<Sink>(machine, std::move(also));
}
ObjectPtr make_event_counter(unsigned value, bool semaphore) {
  return std::make_shared<EventCounter>(value, semaphore);
}

ObjectPtr make_signal_source(Process& process, const sigset_t& set) {
  auto made = std::make_shared<SignalSource>(process, set);
  process.watchers.push_back(made);
  return made;
}

ObjectPtr make_process_watch(Process& process) {
  auto made = std::make_shared<ProcessWatch>(process);
  process.watchers.push_back(made);
  return made;
}

}  // namespace xoe::sim
