#include "core/bootstrap/failing_rank.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/bootstrap/launch_env.h"
#include "core/bootstrap/store.h"

namespace xoe::bootstrap {
namespace {

constexpr std::chrono::milliseconds kLostPeersTimeout(250);
constexpr std::chrono::seconds kUnreachableTimeout(5);  // after 30 s in vain
constexpr std::size_t kMostRanksNamed = 64;

// Sets "<key>/<rank>" in the launcher's store, within `timeout`.
Status tell(const Env& env, std::string_view key, std::string_view value, std::chrono::nanoseconds timeout) {
  XOE_ASSIGN(const LaunchInfo info, read_launch_info(env));
  if (info.launcher != "xoe" || !(info.store.starts_with("unix:") || info.store.starts_with("tcp:"))) return {};
  XOE_ASSIGN(const auto store, open_store(info, timeout));
  return store->set(fmt::format("{}/{}", key, info.topology.rank), value);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes the number that the text begins with.
std::optional<int> take_number(std::string_view& text) {
  const auto end = static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
  const auto number = parse_integer(text.substr(0, end));
  text.remove_prefix(end);
  return number && std::in_range<int>(*number) ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

bool take_separator(std::string_view& text) {
  for (const std::string_view separator : {", and ", " and ", ", "})
    if (text.starts_with(separator) && text.size() > separator.size() && is_digit(text[separator.size()])) {
      text.remove_prefix(separator.size());
      return true;
    }
  return false;
}

void tell_of_peers(const Env& env, std::string_view key, std::string_view cause, int version,
                   std::chrono::nanoseconds timeout) {
  const std::vector<int> lost = ranks_named(cause);
  if (lost.empty()) return;
  // A launcher that is gone need not know, and one that does not answer will see the ranks end.
  const std::string value = fmt::format("{} {} {}", ::getpid(), version, fmt::join(lost, " "));
  static_cast<void>(tell(env, key, value, timeout));
}

}  // namespace

Status announce_failing(const Env& env) {
  return tell(env, kFailingRankKey, std::to_string(::getpid()), std::chrono::seconds(1));
}

void announce_lost_peers(const Env& env, std::string_view cause, int version) {
  const bool silent = cause.find(kNothingHeard) != std::string_view::npos;
  tell_of_peers(env, silent ? kSilentPeersKey : kLostPeersKey, cause, version, kLostPeersTimeout);
}

void announce_unreachable_peers(const Env& env, std::string_view cause, int version) {
  tell_of_peers(env, kUnreachablePeersKey, cause, version, kUnreachableTimeout);
}

std::vector<int> ranks_named(std::string_view text) {
  constexpr std::string_view kWord = "rank";
  text = text.substr(0, text.find(" failed: "));
  std::vector<int> named;
  for (auto at = text.find(kWord); at != std::string_view::npos && named.size() < kMostRanksNamed;
       at = text.find(kWord)) {
    const bool begins = at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]));
    text.remove_prefix(at + kWord.size());
    if (text.starts_with('s')) text.remove_prefix(1);
    if (!begins || !text.starts_with(' ')) continue;
    text.remove_prefix(1);
    do {
      const auto number = take_number(text);
      if (!number) break;
      if (std::ranges::find(named, *number) == named.end()) named.push_back(*number);
    } while (named.size() < kMostRanksNamed && take_separator(text));
  }
  return named;
}

}  // namespace xoe::bootstrap
