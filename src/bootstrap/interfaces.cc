#include "bootstrap/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/fd.h"

namespace xoe::bootstrap {
namespace {

// An address as bytes: 4 or 16 of them.
struct Number {
  std::array<unsigned char, 16> bytes{};
  int bits = 0;  // 32 or 128
};

std::optional<Number> parse_number(const std::string& text) {
  Number number;
  if (::inet_pton(AF_INET, text.c_str(), number.bytes.data()) == 1) {
    number.bits = 32;
    return number;
  }
  if (::inet_pton(AF_INET6, text.c_str(), number.bytes.data()) == 1) {
    number.bits = 128;
    return number;
  }
  return std::nullopt;
}

struct Network {
  Number number;
  int prefix = 0;

  bool contains(const Number& other) const {
    if (other.bits != number.bits) return false;
    for (int bit = 0; bit < prefix; ++bit) {
      const auto mask = static_cast<unsigned char>(0x80 >> (bit % 8));
      const auto byte = static_cast<std::size_t>(bit / 8);
      if ((number.bytes[byte] & mask) != (other.bytes[byte] & mask)) return false;
    }
    return true;
  }
};

std::optional<Network> parse_network(std::string_view text) {
  const auto slash = text.find('/');
  const auto number = parse_number(std::string(text.substr(0, slash)));
  if (!number) return std::nullopt;
  Network network{*number, number->bits};
  if (slash == text.npos) return network;
  const std::string_view digits = text.substr(slash + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), network.prefix);
  const bool good = error == std::errc() && end == digits.data() + digits.size();
  if (!good || network.prefix < 0 || network.prefix > number->bits) return std::nullopt;
  return network;
}

bool fits(const Interface& interface, std::string_view word) {
  if (const auto network = parse_network(word)) {
    const auto number = parse_number(interface.address);
    return number && network->contains(*number);
  }
  return interface.name == word;
}

std::string list(const std::vector<Interface>& interfaces) {
  if (interfaces.empty()) return "no interface that is up";
  std::string text;
  for (const Interface& i : interfaces) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", i.name, i.address);
  return text;
}

bool is_ipv4(const Interface& interface) { return interface.address.find(':') == std::string::npos; }

// A bridge to containers on this host, or an end of one: other hosts do not reach it.
bool of_containers(const Interface& interface) {
  constexpr std::array kPrefixes{"docker", "virbr", "br-", "cni", "veth"};
  return std::ranges::any_of(kPrefixes, [&](const char* prefix) { return interface.name.starts_with(prefix); });
}

std::string default_address(const std::vector<Interface>& interfaces) {
  const auto rank = [](const Interface& i) {
    return (i.loopback ? 4 : 0) + (of_containers(i) ? 2 : 0) + (is_ipv4(i) ? 0 : 1);
  };
  return std::min_element(interfaces.begin(), interfaces.end(),
                          [&](const auto& a, const auto& b) { return rank(a) < rank(b); })
      ->address;
}

}  // namespace

Status check_address(const std::string& address, const std::vector<Interface>& interfaces) {
  const auto number = parse_number(address);
  if (!number) return failure(Code::kInvalidArgument, "'{}' is no address like 10.1.2.3 or fd00::1", address);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  std::memcpy(&v4.sin_addr, number->bytes.data(), sizeof v4.sin_addr);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  std::memcpy(&v6.sin6_addr, number->bytes.data(), sizeof v6.sin6_addr);
  const bool is_v4 = number->bits == 32;
  const auto* const place = is_v4 ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
  const Fd fd(::socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.valid() && ::bind(fd.get(), place, is_v4 ? sizeof v4 : sizeof v6) == 0) return {};
  return failure(Code::kUnavailable, "cannot listen at {}: {}; this host has {}", address, errno_text(errno),
                 list(interfaces));
}

Result<std::vector<Interface>> local_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    return failure(Code::kUnavailable, "cannot list this host's network interfaces: {}", errno_text(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (i->ifa_addr->sa_family == AF_INET) {
      ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof text);
    } else if (i->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;  // means nothing without its interface
      ::inet_ntop(AF_INET6, &address, text, sizeof text);
    } else {
      continue;
    }
    found.push_back({i->ifa_name, text, (i->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return found;
}

Result<std::string> choose_address(const std::vector<Interface>& interfaces, std::string_view wanted) {
  if (interfaces.empty()) return failure(Code::kUnavailable, "this host has {}", list(interfaces));
  if (wanted.empty()) return default_address(interfaces);
  for (std::string_view rest = wanted; !rest.empty();) {
    const auto comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
    if (word.empty() || (word.find_first_of("/:") != word.npos && !parse_network(word)))
      return failure(Code::kInvalidArgument,
                     "'{}' in '{}' is neither the name of an interface nor a network like 10.0.0.0/8; this host has {}",
                     word, wanted, list(interfaces));
    const auto found = std::find_if(interfaces.begin(), interfaces.end(), [&](const auto& i) { return fits(i, word); });
    if (found != interfaces.end()) return found->address;
  }
  return failure(Code::kUnavailable, "no network interface of this host fits '{}'; it has {}", wanted,
                 list(interfaces));
}

}  // namespace xoe::bootstrap
