#include "launch/doctor/facts/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

#include "core/base/interfaces.h"
#include "core/base/text.h"

namespace xoe::doctor {
namespace {

using Addresses = std::map<std::string, std::vector<std::string>>;

bool of_link_only(std::string_view address) {
  return address.starts_with("169.254.") || address.starts_with("fe80:") || address.starts_with("FE80:");
}

void add(Addresses& all, const std::string& interface, const std::string& address) {
  auto& list = all[interface];
  if (!of_link_only(address) && std::find(list.begin(), list.end(), address) == list.end()) list.push_back(address);
}

Addresses live_addresses() {
  Addresses all;
  const auto interfaces = all_interfaces().value_or(std::vector<Interface>());
  for (const bool ipv6 : {false, true})
    for (const Interface& interface : interfaces)
      if (!interface.address.empty() && (interface.address.find(':') != std::string::npos) == ipv6)
        add(all, interface.name, interface.address);
  return all;
}

std::optional<std::uint32_t> parse_hex(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Route {
  std::string interface;
  std::uint32_t network = 0;  // in network order, as /proc/net/route writes it
  std::uint32_t mask = 0;
};

std::vector<Route> read_routes(const Tree& tree) {
  std::vector<Route> routes;
  for (const std::string& line : lines_of(tree.text("/proc/net/route").value_or(""))) {
    const auto words = words_of(line);
    if (words.size() < 8) continue;
    const auto network = parse_hex(words[1]);
    const auto mask = parse_hex(words[7]);
    if (network && mask) routes.push_back({words[0], *network, *mask});
  }
  return routes;
}

// /proc/net/fib_trie names the addresses of this host, /proc/net/route the interfaces that lead to their networks.
void add_recorded_ipv4(const Tree& tree, Addresses& all) {
  const auto routes = read_routes(tree);
  std::string address;
  for (const std::string& line : lines_of(tree.text("/proc/net/fib_trie").value_or(""))) {
    const auto words = words_of(line);
    if (words.size() >= 2 && words[0] == "|--") address = words[1];
    in_addr bytes = {};
    if (words.size() < 3 || words[0] != "/32" || words[2] != "LOCAL" ||
        ::inet_pton(AF_INET, address.c_str(), &bytes) != 1)
      continue;
    const Route* best = nullptr;
    for (const Route& route : routes) {
      if (route.mask == 0 || (bytes.s_addr & route.mask) != route.network) continue;
      if (best == nullptr || std::popcount(route.mask) > std::popcount(best->mask)) best = &route;
    }
    if (address.starts_with("127.")) add(all, "lo", address);
    if (best != nullptr) add(all, best->interface, address);
  }
}

// Lines "fd000000000000000000000000000002 04 40 00 82     eth0".
void add_recorded_ipv6(const Tree& tree, Addresses& all) {
  for (const std::string& line : lines_of(tree.text("/proc/net/if_inet6").value_or(""))) {
    const auto words = words_of(line);
    if (words.size() != 6 || words[0].size() != 32) continue;
    in6_addr bytes = {};
    bool good = true;
    for (std::size_t i = 0; i < 16; ++i) {
      const auto byte = parse_hex(std::string_view(words[0]).substr(2 * i, 2));
      good = good && byte;
      bytes.s6_addr[i] = static_cast<std::uint8_t>(byte.value_or(0));
    }
    char text[INET6_ADDRSTRLEN] = {};
    if (good && ::inet_ntop(AF_INET6, &bytes, text, sizeof text) != nullptr) add(all, words[5], text);
  }
}

}  // namespace

std::map<std::string, Link> live_links() {
  std::map<std::string, Link> links;
  for (const Interface& interface : all_interfaces().value_or(std::vector<Interface>()))
    links[interface.name] = {.up = interface.up && interface.running, .loopback = interface.loopback};
  return links;
}

Addresses read_addresses(const Tree& tree) {
  if (tree.live()) return live_addresses();
  Addresses all;
  add_recorded_ipv4(tree, all);
  add_recorded_ipv6(tree, all);
  return all;
}

}  // namespace xoe::doctor
