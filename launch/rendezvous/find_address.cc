#include "launch/rendezvous/find_address.h"

#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/remote/ask_program.h"

namespace xoe::launch {
namespace {

// What the program prints, or why it failed, in its own words.
Result<std::string> output_of(const std::vector<std::string>& command, const remote::Inherited& inherited,
                              std::chrono::milliseconds timeout) {
  XOE_ASSIGN(const remote::Answer answer, remote::ask_program(command, inherited, timeout));
  if (!answer.in_time) return failure(Code::kTimeout, "{}", "no answer in time");
  if (answer.status == 0) return answer.out;
  std::string_view why = trimmed(answer.err);
  constexpr std::string_view kPrefix = "xoe doctor: ";
  if (why.starts_with(kPrefix)) why.remove_prefix(kPrefix.size());
  return failure(Code::kUnavailable, "{}", why);
}

}  // namespace

Result<std::vector<bootstrap::SocketAddress>> find_addresses(const std::string& host, std::uint16_t port,
                                                             const remote::Inherited& inherited,
                                                             std::chrono::milliseconds timeout) {
  const std::string name = host == "localhost" ? "127.0.0.1" : host;
  if (const auto number = bootstrap::SocketAddress::tcp(name, port)) return std::vector{*number};
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const auto text = output_of({folder / "xoe-doctor", "address", name}, inherited, timeout);
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
