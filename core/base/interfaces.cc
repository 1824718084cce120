#include "core/base/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cerrno>
#include <memory>

#include "core/base/error.h"

namespace xoe {
namespace {

std::string address_text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address != nullptr && address->sa_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  if (address != nullptr && address->sa_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  return text;
}

bool of_one_link(const std::string& address) {
  in6_addr bytes = {};
  return ::inet_pton(AF_INET6, address.c_str(), &bytes) == 1 && IN6_IS_ADDR_LINKLOCAL(&bytes);
}

}  // namespace

Result<std::vector<Interface>> all_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    return failure(Code::kUnavailable, "cannot list this host's network interfaces: {}", errno_text(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next)
    found.push_back({.name = entry->ifa_name,
                     .address = address_text(entry->ifa_addr),
                     .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0,
                     .up = (entry->ifa_flags & IFF_UP) != 0,
                     .running = (entry->ifa_flags & IFF_RUNNING) != 0});
  return found;
}

Result<std::vector<Interface>> local_interfaces() {
  XOE_ASSIGN(auto found, all_interfaces());
  std::erase_if(found, [](const Interface& i) { return !i.up || i.address.empty() || of_one_link(i.address); });
  return found;
}

}  // namespace xoe
