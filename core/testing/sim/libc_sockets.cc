// The C library's sockets, as a simulation has them.
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "core/testing/sim/kernel.h"
#include "core/testing/sim/objects.h"
#include "core/testing/sim/real.h"

namespace {

using xoe::sim::add_pair;
using xoe::sim::Address;
using xoe::sim::kernel;
using xoe::sim::self;
using xoe::sim::simulated;
using xoe::sim::Socket;

std::shared_ptr<Socket> socket_of(int fd) {
  auto found = std::dynamic_pointer_cast<Socket>(simulated(fd));
  if (found == nullptr) errno = ENOTSOCK;
  return found;
}

Address address_of(const sockaddr* given, socklen_t size) {
  Address address{.family = given->sa_family};
  if (given->sa_family == AF_UNIX) {
    const auto* unix_address = reinterpret_cast<const sockaddr_un*>(given);
    const auto count = size - offsetof(sockaddr_un, sun_path);
    address.name.assign(unix_address->sun_path, count);
  } else if (given->sa_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(given);
    address.host = ntohl(in->sin_addr.s_addr);
    address.port = ntohs(in->sin_port);
  } else if (given->sa_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(given);
    address.port = ntohs(in->sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&in->sin6_addr))
      std::memcpy(&address.host, in->sin6_addr.s6_addr + 12, 4), address.host = ntohl(address.host);
    else if (IN6_IS_ADDR_LOOPBACK(&in->sin6_addr))
      address.host = INADDR_LOOPBACK;
  }
  return address;
}

void write_address(const Address& address, sockaddr* out, socklen_t* size) {
  if (out == nullptr) return;
  sockaddr_storage whole = {};
  socklen_t length = sizeof(sa_family_t);
  whole.ss_family = address.family;
  if (address.family == AF_UNIX) {
    auto* unix_address = reinterpret_cast<sockaddr_un*>(&whole);
    const auto count = std::min(address.name.size(), sizeof unix_address->sun_path);
    std::memcpy(unix_address->sun_path, address.name.data(), count);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + count);
  } else if (address.family == AF_INET) {
    auto* in = reinterpret_cast<sockaddr_in*>(&whole);
    in->sin_port = htons(static_cast<std::uint16_t>(address.port));
    in->sin_addr.s_addr = htonl(address.host);
    length = sizeof *in;
  } else if (address.family == AF_INET6) {
    auto* in = reinterpret_cast<sockaddr_in6*>(&whole);
    in->sin6_port = htons(static_cast<std::uint16_t>(address.port));
    if (address.host != 0) {
      in->sin6_addr.s6_addr[10] = in->sin6_addr.s6_addr[11] = 0xff;
      const std::uint32_t host = htonl(address.host);
      std::memcpy(in->sin6_addr.s6_addr + 12, &host, 4);
    }
    length = sizeof *in;
  }
  std::memcpy(out, &whole, std::min(*size, length));
  *size = length;
}

int accepted(int fd, sockaddr* address, socklen_t* size, int flags) {
  kernel->enter();
  const auto socket = socket_of(fd);
  if (socket == nullptr) return -1;
  const auto other = socket->accept(!socket->nonblocking);
  if (other == nullptr) return -1;
  other->nonblocking = (flags & SOCK_NONBLOCK) != 0;
  if (address != nullptr) write_address(other->there(), address, size);
  return kernel->add_descriptor(other, (flags & SOCK_CLOEXEC) != 0);
}

}  // namespace

extern "C" {

int socketpair(int family, int type, int protocol, int* fds) noexcept {
  REAL(socketpair);
  if (self == nullptr) return real_socketpair(family, type, protocol, fds);
  const int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
  return add_pair(xoe::sim::make_socket_pair(kind, *kernel->current().machine), fds, (type & SOCK_CLOEXEC) != 0,
                  (type & SOCK_NONBLOCK) != 0);
}

int socket(int family, int type, int protocol) noexcept {
  REAL(socket);
  if (self == nullptr) return real_socket(family, type, protocol);
  const auto made =
      std::make_shared<Socket>(family, type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK), *kernel->current().machine);
  made->nonblocking = (type & SOCK_NONBLOCK) != 0;
  return kernel->add_descriptor(made, (type & SOCK_CLOEXEC) != 0);
}

int bind(int fd, const sockaddr* address, socklen_t size) noexcept {
  REAL(bind);
  if (self == nullptr) return real_bind(fd, address, size);
  const auto socket = socket_of(fd);
  return socket == nullptr ? -1 : socket->bind(address_of(address, size));
}

int listen(int fd, int backlog) noexcept {
  REAL(listen);
  if (self == nullptr) return real_listen(fd, backlog);
  const auto socket = socket_of(fd);
  return socket == nullptr ? -1 : socket->listen(backlog);
}

int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  REAL(accept4);
  return self == nullptr ? real_accept4(fd, address, size, flags) : accepted(fd, address, size, flags);
}

int accept(int fd, sockaddr* address, socklen_t* size) {
  REAL(accept);
  return self == nullptr ? real_accept(fd, address, size) : accepted(fd, address, size, 0);
}

int connect(int fd, const sockaddr* address, socklen_t size) {
  REAL(connect);
  if (self == nullptr) return real_connect(fd, address, size);
  kernel->enter();
  const auto socket = socket_of(fd);
  return socket == nullptr ? -1 : socket->connect(address_of(address, size), !socket->nonblocking);
}

int shutdown(int fd, int how) noexcept {
  REAL(shutdown);
  if (self == nullptr) return real_shutdown(fd, how);
  kernel->enter();
  const auto socket = socket_of(fd);
  return socket == nullptr ? -1 : socket->shut_down(how);
}

int getsockname(int fd, sockaddr* address, socklen_t* size) noexcept {
  REAL(getsockname);
  if (self == nullptr) return real_getsockname(fd, address, size);
  const auto socket = socket_of(fd);
  if (socket == nullptr) return -1;
  write_address(socket->here(), address, size);
  return 0;
}

int getpeername(int fd, sockaddr* address, socklen_t* size) noexcept {
  REAL(getpeername);
  if (self == nullptr) return real_getpeername(fd, address, size);
  const auto socket = socket_of(fd);
  if (socket == nullptr) return -1;
  if (!socket->connected()) return errno = ENOTCONN, -1;
  write_address(socket->there(), address, size);
  return 0;
}

int setsockopt(int fd, int level, int option, const void* value, socklen_t size) noexcept {
  REAL(setsockopt);
  return self == nullptr ? real_setsockopt(fd, level, option, value, size) : socket_of(fd) == nullptr ? -1 : 0;
}

int getsockopt(int fd, int level, int option, void* value, socklen_t* size) noexcept {
  REAL(getsockopt);
  if (self == nullptr) return real_getsockopt(fd, level, option, value, size);
  const auto socket = socket_of(fd);
  if (socket == nullptr) return -1;
  if (level == SOL_SOCKET && option == SO_PEERCRED) {
    const ucred peer{.pid = self->process->pid, .uid = ::geteuid(), .gid = ::getegid()};
    std::memcpy(value, &peer, std::min<std::size_t>(*size, sizeof peer));
    return 0;
  }
  int answer = 0;
  if (level == SOL_SOCKET && option == SO_ERROR) answer = socket->take_error();
  if (level == SOL_SOCKET && option == SO_TYPE) answer = socket->type();
  if (level == SOL_SOCKET && option == SO_DOMAIN) answer = socket->family();
  if (level == SOL_SOCKET && (option == SO_SNDBUF || option == SO_RCVBUF)) answer = 256 << 10;
  std::memset(value, 0, *size);
  std::memcpy(value, &answer, std::min<std::size_t>(*size, sizeof answer));
  return 0;
}

int getifaddrs(ifaddrs** out) noexcept {
  REAL(getifaddrs);
  if (self == nullptr) return real_getifaddrs(out);
  struct Entry {
    ifaddrs entry = {};
    sockaddr_in address = {}, mask = {};
    char name[8] = {};
  };
  auto* entries = static_cast<Entry*>(std::calloc(2, sizeof(Entry)));
  for (int i = 0; i < 2; ++i) {
    Entry& one = entries[i];
    std::strcpy(one.name, i == 0 ? "lo" : "eth0");
    one.address.sin_family = one.mask.sin_family = AF_INET;
    one.address.sin_addr.s_addr = htonl(i == 0 ? INADDR_LOOPBACK : self->process->machine->number);
    one.mask.sin_addr.s_addr = htonl(0xff000000);
    one.entry.ifa_next = i == 0 ? &entries[1].entry : nullptr;
    one.entry.ifa_name = one.name;
    one.entry.ifa_flags = IFF_UP | IFF_RUNNING | (i == 0 ? static_cast<unsigned>(IFF_LOOPBACK) : 0U);
    one.entry.ifa_addr = reinterpret_cast<sockaddr*>(&one.address);
    one.entry.ifa_netmask = reinterpret_cast<sockaddr*>(&one.mask);
  }
  *out = &entries[0].entry;
  return 0;
}

void freeifaddrs(ifaddrs* list) noexcept {
  REAL(freeifaddrs);
  if (self == nullptr) return real_freeifaddrs(list);
  std::free(list);
}

// The simulated hosts have names; all else is a number.
int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** out) {
  REAL(getaddrinfo);
  if (self == nullptr) return real_getaddrinfo(host, service, hints, out);
  std::string number = host == nullptr ? "" : host;
  if (number == "localhost") number = "127.0.0.1";
  for (const auto& machine : kernel->machines)
    if (machine->name == number) number = machine->address;
  addrinfo wanted = {};
  if (hints != nullptr) wanted = *hints;
  wanted.ai_flags |= AI_NUMERICHOST;
  wanted.ai_flags &= ~AI_ADDRCONFIG;
  return real_getaddrinfo(host == nullptr ? nullptr : number.c_str(), service, &wanted, out);
}

}  // extern "C"
