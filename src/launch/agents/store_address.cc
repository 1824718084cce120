#include "launch/agents/store_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include "base/error.h"
#include "bootstrap/interfaces.h"
#include "bootstrap/own_address.h"
#include "bootstrap/socket_address.h"

namespace xoe::launch {
namespace {

constexpr auto kReachPatience = std::chrono::seconds(5);

}  // namespace

Result<std::vector<std::string>> local_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return failure(Code::kUnavailable, "cannot list the network interfaces: {}", errno_text(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<std::string> found;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (one->ifa_addr->sa_family == AF_INET) {
      ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text.data(), text.size());
      found.emplace_back(text.data());
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      const auto& ip = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
      // Link-local addresses need the name of an interface, which differs from host to host.
      if (IN6_IS_ADDR_LINKLOCAL(&ip) != 0) continue;
      ::inet_ntop(AF_INET6, &ip, text.data(), text.size());
      found.emplace_back(text.data());
    }
  }
  return found;
}

Result<std::string> store_address(std::string_view wanted, std::span<const remote::Hello> hellos) {
  if (!wanted.empty())
    if (auto chosen = bootstrap::own_address(wanted)) return chosen;
  if (hellos.empty()) return std::string("127.0.0.1");
  XOE_ASSIGN(const auto own, local_addresses());
  const auto is_own = [&own](const std::string& ip) { return std::ranges::find(own, ip) != own.end(); };
  // Behind address translation or a jump host they saw an address that is not ours.
  for (const remote::Hello& hello : hellos)
    if (is_own(hello.launcher)) return hello.launcher;
  for (const remote::Hello& hello : hellos)
    for (const std::string& ip : hello.addresses) {
      // Container bridges have the same address on every host: it would lead back here.
      if (is_own(ip)) continue;
      if (auto source = bootstrap::own_address({}, ip); source && is_own(*source)) return source;
    }
  // They have our addresses: simulated hosts on this one.
  return bootstrap::own_address({});
}

std::string traffic_interface(std::string_view wanted, const std::string& store) {
  const auto at = bootstrap::SocketAddress::parse(store);
  const auto own = bootstrap::own_address(wanted, at && at->remote() ? at->host() : std::string());
  const auto all = bootstrap::local_interfaces();
  if (!own || !all) return {};
  const auto found = std::ranges::find(*all, *own, &bootstrap::Interface::address);
  // A second address may have a label, eth0:1.
  return found == all->end() || found->loopback ? std::string() : found->name.substr(0, found->name.find(':'));
}

Status check_reachable(const std::string& store) {
  XOE_ASSIGN(const auto address, bootstrap::SocketAddress::parse(store));
  const auto there = bootstrap::connect_to(address, false, std::chrono::steady_clock::now() + kReachPatience);
  if (there) return {};
  return failure(Code::kUnavailable,
                 "the launcher's store cannot be reached from there: {}; is there a firewall? --network-interface "
                 "chooses another way",
                 there.error().message());
}

}  // namespace xoe::launch
