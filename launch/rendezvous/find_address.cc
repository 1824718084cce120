#include "launch/rendezvous/find_address.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/remote/child_process.h"

namespace xoe::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = 65536;

// What the program prints, or why it failed, in its own words.
Result<std::string> output_of(const std::vector<std::string>& command, const remote::Inherited& inherited,
                              Clock::time_point deadline) {
  XOE_ASSIGN(auto child, remote::ChildProcess::start(command, inherited));
  child.in = Fd();
  std::string out;
  std::string err;
  while (child.out.valid() || child.err.valid() || child.process.fd() >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return failure(Code::kTimeout, "{}", "no answer in time");
    std::array entries{pollfd{.fd = child.out.get(), .events = POLLIN, .revents = 0},
                       pollfd{.fd = child.err.get(), .events = POLLIN, .revents = 0},
                       pollfd{.fd = child.process.fd(), .events = POLLIN, .revents = 0}};
    ::poll(entries.data(), entries.size(), static_cast<int>(std::min<std::int64_t>(left, 1000)));
    if (entries[0].revents != 0) out += remote::read_some(child.out);
    if (entries[1].revents != 0) err += remote::read_some(child.err);
    if (entries[2].revents != 0) child.process.reap();
    if (out.size() + err.size() > kMostOutput) return failure(Code::kInternal, "{} prints too much", command.front());
  }
  if (child.process.status() == 0) return out;
  std::string_view why = trimmed(err);
  constexpr std::string_view kPrefix = "xoe doctor: ";
  if (why.starts_with(kPrefix)) why.remove_prefix(kPrefix.size());
  return failure(Code::kUnavailable, "{}", why);
}

}  // namespace

Result<std::vector<bootstrap::SocketAddress>> find_addresses(const std::string& host, std::uint16_t port,
                                                             const remote::Inherited& inherited,
                                                             std::chrono::milliseconds patience) {
  const std::string name = host == "localhost" ? "127.0.0.1" : host;
  if (const auto number = bootstrap::SocketAddress::tcp(name, port)) return std::vector{*number};
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const auto text = output_of({folder / "xoe-doctor", "address", name}, inherited, Clock::now() + patience);
  if (!text)
    return failure(text.error().code(), "the name {} {}: {}", host,
                   text.error().code() == Code::kTimeout ? "cannot be looked up" : "is not known here",
                   text.error().message());
  std::vector<bootstrap::SocketAddress> addresses;
  for (const std::string& word : words_of(*text))
    if (auto address = bootstrap::SocketAddress::tcp(word, port)) addresses.push_back(*address);
  if (addresses.empty()) return failure(Code::kUnavailable, "the name {} has no address", host);
  return addresses;
}

}  // namespace xoe::launch
