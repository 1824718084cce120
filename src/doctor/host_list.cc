#include "doctor/host_list.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/text.h"
#include "doctor/tree.h"

namespace xoe::doctor {
namespace {

constexpr std::size_t kMostHosts = 1024;
constexpr std::size_t kLongestName = 320;

bool fits_in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("._-@:%").find(c) != std::string_view::npos;
}

// Without brackets and slots.
Result<std::string> parse_host(std::string_view text) {
  std::string_view user;
  std::string_view host = text;
  if (const auto at = host.rfind('@'); at != std::string_view::npos) {
    user = host.substr(0, at + 1);
    host.remove_prefix(at + 1);
  }
  std::string_view slots;
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    if (end == std::string_view::npos)
      return failure(Code::kInvalidArgument, "host \"{}\": the bracket does not end", text);
    slots = host.substr(end + 1);
    host = host.substr(1, end - 1);
  } else if (const auto colon = host.find(':'); colon != std::string_view::npos) {
    slots = host.substr(colon);
    host = host.substr(0, colon);
  }
  if (!slots.empty() && (!slots.starts_with(':') || parse_integer(slots.substr(1)).value_or(0) < 1))
    return failure(Code::kInvalidArgument, "host \"{}\": after its name comes :N, the number of slots", text);
  const std::string name = std::string(user) + std::string(host);
  const bool good = !host.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), fits_in_name);
  if (!good || name.starts_with('-') || host.starts_with('-') || user == "@")
    return failure(Code::kInvalidArgument, "\"{}\" is no name of a host", text);
  return name;
}

Status add_host(std::vector<std::string>& hosts, std::string_view text) {
  XOE_ASSIGN(std::string host, parse_host(text));
  if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(std::move(host));
  if (hosts.size() > kMostHosts) return failure(Code::kInvalidArgument, "more than {} hosts", kMostHosts);
  return {};
}

}  // namespace

Result<std::vector<std::string>> parse_hosts(std::string_view text) {
  std::vector<std::string> hosts;
  for (const std::string& part : split_text(text, ',')) XOE_TRY(add_host(hosts, part));
  return hosts;
}

Result<std::vector<std::string>> parse_hostfile(std::string_view text, std::string_view path) {
  std::vector<std::string> hosts;
  std::size_t number = 0;
  for (const std::string& line : split_text(text, '\n')) {
    ++number;
    const auto words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    if (const Status added = add_host(hosts, words[0]); !added)
      return failure(Code::kInvalidArgument, "{} line {}: {}", path, number, added.error().message());
  }
  if (hosts.empty()) return failure(Code::kInvalidArgument, "{} names no host", path);
  return hosts;
}

}  // namespace xoe::doctor
