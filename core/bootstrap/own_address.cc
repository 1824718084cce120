#include "core/bootstrap/own_address.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/bootstrap/socket_address.h"

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
  if (slash == std::string_view::npos) return network;
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
  return std::ranges::min_element(interfaces, {}, rank)->address;
}

// Asks the routing table which address a packet to `target` would leave from; nothing is sent.
std::optional<std::string> address_towards(const std::string& target) {
  constexpr std::uint16_t kDiscard = 9;
  const auto to = SocketAddress::tcp(target, kDiscard);
  if (!to) return std::nullopt;
  const Fd socket(::socket(to->address()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::connect(socket.get(), to->address(), to->size()) != 0) return std::nullopt;
  return SocketAddress::of(socket.get()).host();
}

}  // namespace

Result<std::string> choose_address(const std::vector<Interface>& interfaces, std::string_view wanted) {
  if (interfaces.empty()) return failure(Code::kUnavailable, "this host has {}", list(interfaces));
  if (wanted.empty()) return default_address(interfaces);
  for (std::string_view rest = wanted; !rest.empty();) {
    const auto comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (word.empty() || (word.find_first_of("/:") != std::string_view::npos && !parse_network(word)))
      return failure(Code::kInvalidArgument,
                     "'{}' in '{}' is neither the name of an interface nor a network like 10.0.0.0/8; this host has {}",
                     word, wanted, list(interfaces));
    const auto found = std::find_if(interfaces.begin(), interfaces.end(), [&](const auto& i) { return fits(i, word); });
    if (found != interfaces.end()) return found->address;
  }
  return failure(Code::kUnavailable, "no network interface of this host fits '{}'; it has {}", wanted,
                 list(interfaces));
}

Status check_address(const std::string& address, const std::vector<Interface>& interfaces) {
  XOE_ASSIGN(const auto any_port, SocketAddress::tcp(address, 0));
  const Fd fd(::socket(any_port.address()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.valid() && ::bind(fd.get(), any_port.address(), any_port.size()) == 0) return {};
  return failure(Code::kUnavailable, "cannot listen at {}: {}; this host has {}", address, errno_text(errno),
                 list(interfaces));
}

Result<std::string> own_address(std::string_view wanted, std::string_view towards) {
  if (wanted.empty() && !towards.empty())
    if (auto address = address_towards(std::string(towards))) return std::move(*address);
  XOE_ASSIGN(const auto all, local_interfaces());
  return choose_address(all, wanted);
}

}  // namespace xoe::bootstrap
