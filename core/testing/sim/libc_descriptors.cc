// The C library's descriptors, as a simulation has them.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "core/testing/sim/kernel.h"
#include "core/testing/sim/objects.h"
#include "core/testing/sim/real.h"

namespace {

using xoe::sim::add_pair;
using xoe::sim::kernel;
using xoe::sim::kForever;
using xoe::sim::kMilli;
using xoe::sim::kSecond;
using xoe::sim::ObjectPtr;
using xoe::sim::Process;
using xoe::sim::self;
using xoe::sim::simulated;
using xoe::sim::Socket;
using xoe::sim::Time;

// Gives the real kernel's descriptor for it.
int real_fd(int fd) {
  const ObjectPtr object = simulated(fd);
  return object == nullptr ? fd : object->real();
}

Time until(int milliseconds) { return milliseconds < 0 ? kForever : kernel->now() + Time{milliseconds} * kMilli; }

// A file that the real kernel has opened, or its error.
int adopt(int fd, bool close_on_exec) {
  if (fd < 0 || self == nullptr) return fd;
  return kernel->add_descriptor(xoe::sim::make_real_file(fd), close_on_exec);
}

ssize_t receive(int fd, void* bytes, std::size_t size, int flags) {
  kernel->enter();
  const ObjectPtr object = simulated(fd);
  return object->read(bytes, size, !object->nonblocking && (flags & MSG_DONTWAIT) == 0, flags);
}

ssize_t transmit(int fd, const void* bytes, std::size_t size, int flags) {
  kernel->enter();
  const ObjectPtr object = simulated(fd);
  const ssize_t count = object->write(bytes, size, !object->nonblocking && (flags & MSG_DONTWAIT) == 0);
  if (count < 0 && errno == EPIPE && (flags & MSG_NOSIGNAL) == 0 && std::dynamic_pointer_cast<Socket>(object)) {
    kernel->raise_in_caller(SIGPIPE);
    if (self->dead) kernel->park();
    errno = EPIPE;
  }
  return count;
}

// A text of its own for each start of each machine.
std::string boot_identity_file() {
  auto& machine = *self->process->machine;
  if (machine.boot_identity < 0) {
    REAL(memfd_create);
    REAL(write);
    machine.boot_identity = real_memfd_create("boot_id", MFD_CLOEXEC);
    const std::string text = machine.name + "-" + std::to_string(kernel->random.next()) + "\n";
    if (real_write(machine.boot_identity, text.data(), text.size()) < 0) std::abort();
  }
  return "/proc/self/fd/" + std::to_string(machine.boot_identity);
}

// /proc/PID/fd/N of a simulated process leads to the file behind it; other paths are as they are.
std::string translated(const char* path) {
  int pid = 0, fd = 0, end = 0;
  if (self == nullptr) return path;
  if (std::strcmp(path, "/proc/sys/kernel/random/boot_id") == 0) return boot_identity_file();
  if (std::sscanf(path, "/proc/%d/fd/%d%n", &pid, &fd, &end) < 2 || path[end] != '\0') {
    pid = self->process->pid;
    if (std::sscanf(path, "/proc/self/fd/%d%n", &fd, &end) < 1 || path[end] != '\0') return path;
  }
  const Process* process = kernel->find(pid);
  if (process == nullptr || process->ended) return path;
  const auto found = process->descriptors.find(fd);
  if (found == process->descriptors.end() || found->second.object->real() < 0) return path;
  return "/proc/self/fd/" + std::to_string(found->second.object->real());
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  REAL(openat);
  return adopt(real_openat(folder == AT_FDCWD ? folder : real_fd(folder), translated(path).c_str(), flags, mode),
               (flags & O_CLOEXEC) != 0);
}

int duplicate(int fd, int at_least, bool close_on_exec) {
  const ObjectPtr object = simulated(fd);
  if (object == nullptr) return errno = EBADF, -1;
  return kernel->add_descriptor(object, close_on_exec, std::max(at_least, xoe::sim::Kernel::kFirstDescriptor));
}

}  // namespace

extern "C" {

ssize_t read(int fd, void* bytes, size_t size) {
  REAL(read);
  return simulated(fd) == nullptr ? real_read(fd, bytes, size) : receive(fd, bytes, size, 0);
}

ssize_t __read_chk(int fd, void* bytes, size_t size, size_t) { return read(fd, bytes, size); }

ssize_t write(int fd, const void* bytes, size_t size) {
  REAL(write);
  return simulated(fd) == nullptr ? real_write(fd, bytes, size) : transmit(fd, bytes, size, 0);
}

ssize_t recv(int fd, void* bytes, size_t size, int flags) {
  REAL(recv);
  return simulated(fd) == nullptr ? real_recv(fd, bytes, size, flags) : receive(fd, bytes, size, flags);
}

ssize_t __recv_chk(int fd, void* bytes, size_t size, size_t, int flags) { return recv(fd, bytes, size, flags); }

ssize_t send(int fd, const void* bytes, size_t size, int flags) {
  REAL(send);
  return simulated(fd) == nullptr ? real_send(fd, bytes, size, flags) : transmit(fd, bytes, size, flags);
}

ssize_t readv(int fd, const iovec* parts, int count) {
  REAL(readv);
  if (simulated(fd) == nullptr) return real_readv(fd, parts, count);
  for (int i = 0; i < count; ++i)
    if (parts[i].iov_len > 0) return read(fd, parts[i].iov_base, parts[i].iov_len);
  return 0;
}

ssize_t writev(int fd, const iovec* parts, int count) {
  REAL(writev);
  if (simulated(fd) == nullptr) return real_writev(fd, parts, count);
  std::string whole;
  for (int i = 0; i < count; ++i) whole.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return write(fd, whole.data(), whole.size());
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  REAL(sendmsg);
  if (simulated(fd) == nullptr) return real_sendmsg(fd, message, flags);
  std::string whole;
  for (std::size_t i = 0; i < message->msg_iovlen; ++i)
    whole.append(static_cast<const char*>(message->msg_iov[i].iov_base), message->msg_iov[i].iov_len);
  return send(fd, whole.data(), whole.size(), flags);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  REAL(recvmsg);
  if (simulated(fd) == nullptr) return real_recvmsg(fd, message, flags);
  message->msg_controllen = 0;
  message->msg_flags = 0;
  return recv(fd, message->msg_iov[0].iov_base, message->msg_iov[0].iov_len, flags);
}

int close(int fd) {
  REAL(close);
  if (simulated(fd) == nullptr) return real_close(fd);
  kernel->enter();
  return kernel->close(fd);
}

int close_range(unsigned first, unsigned last, int flags) noexcept {
  REAL(close_range);
  if (self == nullptr) return real_close_range(first, last, flags);
  std::vector<int> closed;
  for (const auto& [fd, descriptor] : kernel->current().descriptors)
    if (static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last) closed.push_back(fd);
  for (const int fd : closed) kernel->close(fd);
  return 0;
}

// A folder is read by the real kernel.
DIR* fdopendir(int fd) {
  REAL(fdopendir);
  REAL(dup);
  if (simulated(fd) == nullptr) return real_fdopendir(fd);
  if (real_fd(fd) < 0) return errno = ENOTDIR, nullptr;
  DIR* const folder = real_fdopendir(real_dup(real_fd(fd)));
  if (folder != nullptr) kernel->close(fd);
  return folder;
}

int dup(int fd) noexcept {
  REAL(dup);
  return simulated(fd) == nullptr ? real_dup(fd) : duplicate(fd, 0, false);
}

int dup2(int fd, int to) noexcept {
  REAL(dup2);
  if (self == nullptr) return real_dup2(fd, to);
  const ObjectPtr object = simulated(fd);
  if (object == nullptr) return errno = EBADF, -1;
  if (fd == to) return to;
  if (simulated(to) != nullptr) kernel->close(to);
  ++object->references;
  kernel->current().descriptors[to] = {.object = object, .close_on_exec = false};
  return to;
}

int fcntl(int fd, int command, ...) {
  using Fcntl = int(int, int, ...);
  static auto* const real_fcntl = xoe::sim::real<Fcntl>("fcntl");
  va_list list;
  va_start(list, command);
  const long argument = va_arg(list, long);
  va_end(list);
  const ObjectPtr object = simulated(fd);
  if (object == nullptr) return real_fcntl(fd, command, argument);
  // Locks of a file are of a whole process, and the real kernel knows one only. Programs that share a file keep each
  // other out by flock().
  if (command == F_SETLK || command == F_SETLKW) return 0;
  if (command == F_GETLK) return reinterpret_cast<struct flock*>(argument)->l_type = F_UNLCK, 0;
  auto& descriptor = kernel->current().descriptors[fd];
  switch (command) {
    case F_GETFL: return O_RDWR | (object->nonblocking ? O_NONBLOCK : 0);
    case F_SETFL: object->nonblocking = (argument & O_NONBLOCK) != 0; return 0;
    case F_GETFD: return descriptor.close_on_exec ? FD_CLOEXEC : 0;
    case F_SETFD: descriptor.close_on_exec = (argument & FD_CLOEXEC) != 0; return 0;
    case F_DUPFD: return duplicate(fd, static_cast<int>(argument), false);
    case F_DUPFD_CLOEXEC: return duplicate(fd, static_cast<int>(argument), true);
    case F_SETPIPE_SZ: return static_cast<int>(argument);
    case F_GETPIPE_SZ: return 65536;
    default: return object->real() >= 0 ? real_fcntl(object->real(), command, argument) : (errno = EINVAL, -1);
  }
}

int fcntl64(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  const long argument = va_arg(list, long);
  va_end(list);
  return fcntl(fd, command, argument);
}

int ioctl(int fd, unsigned long request, ...) noexcept {
  using Ioctl = int(int, unsigned long, ...);
  static auto* const real_ioctl = xoe::sim::real<Ioctl>("ioctl");
  va_list list;
  va_start(list, request);
  void* const argument = va_arg(list, void*);
  va_end(list);
  const ObjectPtr object = simulated(fd);
  if (object == nullptr) return real_ioctl(fd, request, argument);
  if (request != FIONBIO) return errno = ENOTTY, -1;
  object->nonblocking = *static_cast<int*>(argument) != 0;
  return 0;
}

int isatty(int fd) noexcept {
  REAL(isatty);
  return self == nullptr ? real_isatty(fd) : (errno = ENOTTY, 0);
}

int poll(pollfd* entries, nfds_t count, int timeout) {
  REAL(poll);
  if (self == nullptr) return real_poll(entries, count, timeout);
  kernel->enter();
  return kernel->poll(entries, count, until(timeout));
}

int ppoll(pollfd* entries, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  REAL(ppoll);
  if (self == nullptr) return real_ppoll(entries, count, timeout, mask);
  kernel->enter();
  return kernel->poll(
      entries, count,
      timeout == nullptr ? kForever : kernel->now() + Time{timeout->tv_sec} * kSecond + timeout->tv_nsec);
}

int epoll_create1(int flags) noexcept {
  REAL(epoll_create1);
  if (self == nullptr) return real_epoll_create1(flags);
  return kernel->add_descriptor(std::make_shared<xoe::sim::Epoll>(), (flags & EPOLL_CLOEXEC) != 0);
}

int epoll_create(int) noexcept { return epoll_create1(0); }

int epoll_ctl(int fd, int operation, int watched, epoll_event* event) noexcept {
  REAL(epoll_ctl);
  const auto epoll = std::dynamic_pointer_cast<xoe::sim::Epoll>(simulated(fd));
  if (epoll == nullptr) return real_epoll_ctl(fd, operation, watched, event);
  kernel->enter();
  const ObjectPtr object = simulated(watched);
  if (object == nullptr) return errno = EBADF, -1;
  return epoll->control(operation, watched, object, event);
}

int epoll_wait(int fd, epoll_event* events, int most, int timeout) {
  REAL(epoll_wait);
  const auto epoll = std::dynamic_pointer_cast<xoe::sim::Epoll>(simulated(fd));
  if (epoll == nullptr) return real_epoll_wait(fd, events, most, timeout);
  kernel->enter();
  return epoll->wait(events, most, until(timeout));
}

int eventfd(unsigned value, int flags) noexcept {
  REAL(eventfd);
  if (self == nullptr) return real_eventfd(value, flags);
  const auto made = xoe::sim::make_event_counter(value, (flags & EFD_SEMAPHORE) != 0);
  made->nonblocking = (flags & EFD_NONBLOCK) != 0;
  return kernel->add_descriptor(made, (flags & EFD_CLOEXEC) != 0);
}

int eventfd_read(int fd, eventfd_t* value) { return read(fd, value, sizeof *value) == sizeof *value ? 0 : -1; }
int eventfd_write(int fd, eventfd_t value) { return write(fd, &value, sizeof value) == sizeof value ? 0 : -1; }

int signalfd(int fd, const sigset_t* set, int flags) noexcept {
  REAL(signalfd);
  if (self == nullptr) return real_signalfd(fd, set, flags);
  const auto made = xoe::sim::make_signal_source(kernel->current(), *set);
  made->nonblocking = (flags & SFD_NONBLOCK) != 0;
  return kernel->add_descriptor(made, (flags & SFD_CLOEXEC) != 0);
}

int pipe2(int* fds, int flags) noexcept {
  REAL(pipe2);
  if (self == nullptr) return real_pipe2(fds, flags);
  return add_pair(xoe::sim::make_pipe(), fds, (flags & O_CLOEXEC) != 0, (flags & O_NONBLOCK) != 0);
}

int pipe(int* fds) noexcept { return pipe2(fds, 0); }

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return open_at(folder, path, flags, mode);
}

int memfd_create(const char* name, unsigned flags) noexcept {
  REAL(memfd_create);
  return adopt(real_memfd_create(name, flags), (flags & MFD_CLOEXEC) != 0);
}

int mkostemp(char* pattern, int flags) {
  REAL(mkostemp);
  return adopt(real_mkostemp(pattern, flags), (flags & O_CLOEXEC) != 0);
}

ssize_t pread(int fd, void* bytes, size_t size, off_t at) {
  REAL(pread);
  return real_pread(real_fd(fd), bytes, size, at);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) {
  REAL(pwrite);
  return real_pwrite(real_fd(fd), bytes, size, at);
}

ssize_t pread64(int fd, void* bytes, size_t size, off64_t at) { return pread(fd, bytes, size, at); }
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t at) { return pwrite(fd, bytes, size, at); }

int fchmod(int fd, mode_t mode) noexcept {
  REAL(fchmod);
  return real_fchmod(real_fd(fd), mode);
}

int fchown(int fd, uid_t user, gid_t group) noexcept {
  REAL(fchown);
  return real_fchown(real_fd(fd), user, group);
}

int fstat(int fd, struct stat* out) noexcept {
  REAL(fstat);
  const int inner = real_fd(fd);
  if (inner >= 0) return real_fstat(inner, out);
  *out = {};
  out->st_mode = std::dynamic_pointer_cast<Socket>(simulated(fd)) ? S_IFSOCK | 0600 : S_IFIFO | 0600;
  return 0;
}

int fstat64(int fd, struct stat64* out) noexcept { return fstat(fd, reinterpret_cast<struct stat*>(out)); }

int ftruncate(int fd, off_t size) noexcept {
  REAL(ftruncate);
  return real_ftruncate(real_fd(fd), size);
}

int ftruncate64(int fd, off64_t size) noexcept { return ftruncate(fd, size); }

int fallocate(int fd, int mode, off_t at, off_t size) {
  REAL(fallocate);
  return real_fallocate(real_fd(fd), mode, at, size);
}

int fsync(int fd) {
  REAL(fsync);
  return self != nullptr ? 0 : real_fsync(fd);
}

int fdatasync(int fd) {
  REAL(fdatasync);
  return self != nullptr ? 0 : real_fdatasync(fd);
}

off_t lseek(int fd, off_t at, int whence) noexcept {
  REAL(lseek);
  const int inner = real_fd(fd);
  return inner < 0 ? (errno = ESPIPE, -1) : real_lseek(inner, at, whence);
}

off64_t lseek64(int fd, off64_t at, int whence) noexcept { return lseek(fd, at, whence); }

int flock(int fd, int operation) noexcept {
  REAL(flock);
  if (simulated(fd) == nullptr) return real_flock(fd, operation);
  while (true) {
    kernel->enter();
    const int result = real_flock(real_fd(fd), operation | LOCK_NB);
    if (result == 0 || errno != EWOULDBLOCK || (operation & LOCK_NB) != 0) return result;
    kernel->wait(kernel->now() + kMilli);
  }
}

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t at) noexcept {
  REAL(mmap);
  const int inner = fd < 0 ? fd : real_fd(fd);
  void* const made = real_mmap(address, size, protection, flags, inner, at);
  if (self != nullptr && inner >= 0 && made != MAP_FAILED && (flags & MAP_SHARED) != 0)
    xoe::sim::note_mapping(made, size, inner, at);
  return made;
}

void* mmap64(void* address, size_t size, int protection, int flags, int fd, off64_t at) noexcept {
  return mmap(address, size, protection, flags, fd, at);
}

int munmap(void* address, size_t size) noexcept {
  REAL(munmap);
  if (self != nullptr) xoe::sim::forget_mapping(address);
  return real_munmap(address, size);
}

}  // extern "C"
