#include "launch/agents/store_address.h"

#include <algorithm>
#include <chrono>

#include "core/base/error.h"
#include "core/base/interfaces.h"
#include "core/bootstrap/own_address.h"
#include "core/bootstrap/socket_address.h"

namespace xoe::launch {
namespace {

constexpr auto kReachTimeout = std::chrono::seconds(5);

}  // namespace

Result<std::vector<std::string>> local_addresses() {
  XOE_ASSIGN(const auto interfaces, local_interfaces());
  std::vector<std::string> found;
  for (const Interface& interface : interfaces)
    if (!interface.loopback) found.push_back(interface.address);
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
  const auto all = local_interfaces();
  if (!own || !all) return {};
  const auto found = std::ranges::find(*all, *own, &Interface::address);
  // A second address may have a label, eth0:1.
  return found == all->end() || found->loopback ? std::string() : found->name.substr(0, found->name.find(':'));
}

Status check_reachable(const std::string& store) {
  XOE_ASSIGN(const auto address, bootstrap::SocketAddress::parse(store));
  const auto there = bootstrap::connect_to(address, false, std::chrono::steady_clock::now() + kReachTimeout);
  if (there) return {};
  return failure(Code::kUnavailable,
                 "the launcher's store cannot be reached from there: {}; is there a firewall? --network-interface "
                 "chooses another way",
                 there.error().message());
}

}  // namespace xoe::launch
