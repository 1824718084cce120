#include "bootstrap/own_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

namespace xoe::bootstrap {
namespace {

struct Own {
  std::string interface;
  std::string address;
  std::vector<unsigned char> bytes;
  bool loopback = false;
};

std::optional<Own> describe(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return std::nullopt;
  Own own{.interface = entry.ifa_name, .address = {}, .bytes = {}, .loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0};
  char text[INET6_ADDRSTRLEN] = {};
  const void* bytes = nullptr;
  std::size_t size = 0;
  if (entry.ifa_addr->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(entry.ifa_addr)->sin_addr;
    size = 4;
  } else if (entry.ifa_addr->sa_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr;
    if (IN6_IS_ADDR_LINKLOCAL(&address)) return std::nullopt;
    bytes = &address;
    size = 16;
  } else {
    return std::nullopt;
  }
  ::inet_ntop(entry.ifa_addr->sa_family, bytes, text, sizeof text);
  own.address = text;
  own.bytes.resize(size);
  std::memcpy(own.bytes.data(), bytes, size);
  return own;
}

// Those of IPv4 first.
Result<std::vector<Own>> own_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return failure(Code::kInternal, "getifaddrs: {}", errno_text(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<Own> all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
    if (auto own = describe(*entry)) all.push_back(std::move(*own));
  std::ranges::stable_sort(all, {}, [](const Own& own) { return own.bytes.size(); });
  return all;
}

// "10.0.0.0/8"
bool in_network(const Own& own, std::string_view network) {
  const auto slash = network.find('/');
  const auto bits = parse_integer(network.substr(slash + 1));
  const std::string base(network.substr(0, slash));
  std::array<unsigned char, 16> bytes{};
  const int family = own.bytes.size() == 4 ? AF_INET : AF_INET6;
  if (::inet_pton(family, base.c_str(), bytes.data()) != 1 || !bits || *bits < 0 ||
      *bits > static_cast<std::int64_t>(8 * own.bytes.size()))
    return false;
  for (std::int64_t bit = 0; bit < *bits; ++bit) {
    const auto at = static_cast<std::size_t>(bit / 8);
    if (((bytes[at] ^ own.bytes[at]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

bool matches(const Own& own, const std::string& wanted) {
  return wanted.find('/') != std::string::npos ? in_network(own, wanted)
                                               : own.interface == wanted || own.address == wanted;
}

// Where the routing table would send a packet from; nothing is sent.
std::optional<std::string> address_towards(std::string_view target) {
  const std::string text(target);
  sockaddr_storage to{};
  socklen_t size = 0;
  auto& v4 = reinterpret_cast<sockaddr_in&>(to);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(to);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(9);
    size = sizeof v4;
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(9);
    size = sizeof v6;
  } else {
    return std::nullopt;
  }
  const Fd socket(::socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), size) != 0) return std::nullopt;
  sockaddr_storage from{};
  socklen_t from_size = sizeof from;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&from), &from_size) != 0) return std::nullopt;
  char out[INET6_ADDRSTRLEN] = {};
  const void* bytes = from.ss_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(from).sin_addr)
                          : &reinterpret_cast<const sockaddr_in6&>(from).sin6_addr;
  if (::inet_ntop(from.ss_family, bytes, out, sizeof out) == nullptr) return std::nullopt;
  return out;
}

bool of_containers(const Own& own) {
  return own.interface.starts_with("docker") || own.interface.starts_with("virbr") ||
         own.interface.starts_with("br-") || own.interface.starts_with("cni") || own.interface.starts_with("veth");
}

}  // namespace

Result<std::string> own_address(std::string_view interfaces, std::string_view towards) {
  XOE_ASSIGN(const auto all, own_addresses());
  if (!interfaces.empty()) {
    for (const std::string& wanted : split_text(interfaces, ','))
      for (const Own& own : all)
        if (matches(own, wanted)) return own.address;
    std::string here;
    for (const Own& own : all) here += fmt::format("{}{} ({})", here.empty() ? "" : ", ", own.interface, own.address);
    return failure(Code::kInvalidArgument, "no interface here is {}; there are {}", interfaces, here);
  }
  if (!towards.empty())
    if (auto address = address_towards(towards)) return std::move(*address);
  for (const bool containers : {false, true})
    for (const Own& own : all)
      if (!own.loopback && of_containers(own) == containers) return own.address;
  return std::string("127.0.0.1");
}

}  // namespace xoe::bootstrap
