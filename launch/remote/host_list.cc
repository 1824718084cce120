#include "launch/remote/host_list.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "core/base/utf8.h"

namespace xoe::remote {
namespace {

constexpr std::int64_t kMaxSlots = 4096;
constexpr std::size_t kMaxNameBytes = 512;

// 0: not a number of slots.
int parse_slots(std::string_view text) {
  const auto number = parse_integer(text).value_or(0);
  return number < 1 || number > kMaxSlots ? 0 : static_cast<int>(number);
}

bool is_ipv6(std::string_view text) {
  in6_addr address;
  return ::inet_pton(AF_INET6, std::string(text.substr(0, text.find('%'))).c_str(), &address) == 1;
}

// Refuses names that ssh could take for an option, a shell for more than a name, and srun for a file.
bool good_name(std::string_view name) {
  static constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:@%";
  const auto host = name.substr(name.rfind('@') + 1);
  return host.find_first_not_of('.') != std::string_view::npos && host.front() != '-' && name.front() != '-' &&
         name.front() != '@' && name.size() <= kMaxNameBytes &&
         name.find_first_not_of(kAllowed) == std::string_view::npos &&
         (host.find(':') == std::string_view::npos || is_ipv6(host));
}

// "name", "name:4", "[ipv6]:4", each perhaps after "user@"; nullopt for anything else.
std::optional<Host> parse_host(std::string_view text) {
  const auto user = text.substr(0, text.rfind('@') + 1);
  auto name = text.substr(user.size());
  std::string_view slots;
  if (name.starts_with('[')) {
    const auto close = name.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    slots = name.substr(close + 1);
    name = name.substr(1, close - 1);
    if (!slots.empty() && !slots.starts_with(':')) return std::nullopt;
  } else if (const auto colon = name.find(':'); colon != std::string_view::npos && colon == name.rfind(':')) {
    slots = name.substr(colon);
    name = name.substr(0, colon);
  }
  Host host{.name = std::string(user).append(name)};
  if (!good_name(host.name)) return std::nullopt;
  if (slots.empty()) return host;
  host.slots = parse_slots(slots.substr(1));
  return host.slots == 0 ? std::nullopt : std::optional(std::move(host));
}

void add(std::vector<Host>& hosts, Host host) {
  const auto same = std::ranges::find(hosts, host.name, &Host::name);
  if (same == hosts.end()) {
    hosts.push_back(std::move(host));
    return;
  }
  same->slots += host.slots;
  if (same->max_slots != 0 || host.max_slots != 0) same->max_slots = std::max(same->max_slots, host.max_slots);
}

// Applies a word after a host's name. Open MPI's other words mean nothing here.
Status apply_word(Host& host, const std::string& word, std::string_view where) {
  const auto equals = word.find('=');
  const std::string key = word.substr(0, equals);
  const int value = equals == std::string::npos ? 0 : parse_slots(word.substr(equals + 1));
  if (key == "slots" && value != 0)
    host.slots = value;
  else if ((key == "max-slots" || key == "max_slots") && value != 0)
    host.max_slots = value;
  else
    return failure(Code::kInvalidArgument, "{}: \"{}\" is not understood; expected e.g. slots=4 or max-slots=8", where,
                   printable_utf8(word));
  return {};
}

// --- Slurm's form

constexpr std::size_t kMaxExpanded = 65536;

tl::unexpected<Error> malformed(std::string_view text) {
  return failure(Code::kInvalidArgument, "host list \"{}\": expected e.g. n[1-3,07],login", printable_utf8(text));
}

// At commas outside of brackets.
Result<std::vector<std::string_view>> split_names(std::string_view text) {
  std::vector<std::string_view> names;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[' || c == ']') {
      if (inside == (c == '[')) return malformed(text);
      inside = c == '[';
    } else if (c == ',' && !inside) {
      if (i == begin) return malformed(text);
      names.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (inside) return malformed(text);
  return names;
}

// "1-3,07" to {"1", "2", "3", "07"}.
Result<std::vector<std::string>> expand_ranges(std::string_view ranges, std::string_view text) {
  std::vector<std::string> numbers;
  for (const std::string& range : split_text(ranges, ',')) {
    const auto dash = range.find('-');
    const std::string low = range.substr(0, dash);
    const std::string high = dash == std::string::npos ? low : range.substr(dash + 1);
    const auto digits = [](const std::string& word) {
      return !word.empty() && word.size() < 10 && word.find_first_not_of("0123456789") == std::string::npos;
    };
    if (!digits(low) || !digits(high)) return malformed(text);
    const auto first = *parse_integer(low);
    const auto last = *parse_integer(high);
    if (last < first || static_cast<std::size_t>(last - first) >= kMaxExpanded || numbers.size() >= kMaxExpanded)
      return malformed(text);
    for (auto number = first; number <= last; ++number) numbers.push_back(fmt::format("{:0{}}", number, low.size()));
  }
  return numbers;
}

}  // namespace

Result<std::vector<Host>> parse_hosts(std::string_view text) {
  std::vector<Host> hosts;
  for (const std::string& one : split_text(text, ',')) {
    auto host = parse_host(one);
    if (!host)
      return failure(Code::kInvalidArgument, "\"{}\" is not a host; expected e.g. nodeA:4,nodeB:4 (1 to {} slots)",
                     printable_utf8(one), kMaxSlots);
    add(hosts, std::move(*host));
  }
  return hosts;
}

Result<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view path) {
  std::vector<Host> hosts;
  std::size_t number = 0;
  for (const std::string& line : split_text(text, '\n')) {
    const std::string where = fmt::format("{} line {}", path, ++number);
    const auto words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    auto host = parse_host(words.front());
    if (!host)
      return failure(Code::kInvalidArgument, "{}: \"{}\" is not a host; expected e.g. nodeA slots=4", where,
                     printable_utf8(words.front()));
    for (std::size_t i = 1; i < words.size(); ++i) XOE_TRY(apply_word(*host, words[i], where));
    if (host->max_slots != 0 && host->max_slots < host->slots)
      return failure(Code::kInvalidArgument, "{}: max-slots={} is below slots={}", where, host->max_slots, host->slots);
    add(hosts, std::move(*host));
  }
  if (hosts.empty()) return failure(Code::kInvalidArgument, "{} names no host", path);
  return hosts;
}

Result<std::vector<Host>> read_hostfile(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text) return failure(text.error().code(), "--hostfile {}: {}", path, text.error().message());
  return parse_hostfile(*text, path);
}

std::string this_hostname() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

bool names_this_host(std::string_view name, std::string_view hostname) {
  if (const auto at = name.find('@'); at != std::string_view::npos) return false;  // perhaps another user
  if (name == "localhost" || name == "::1" || name.starts_with("127.") || name == hostname) return true;
  const auto without_domain = [](std::string_view full) { return full.substr(0, full.find('.')); };
  // One of them without its domain; two different domains are two hosts.
  if (name.find('.') != std::string_view::npos && hostname.find('.') != std::string_view::npos) return false;
  const bool number = name.find_first_not_of("0123456789.:") == std::string_view::npos;
  return !number && !hostname.empty() && without_domain(name) == without_domain(hostname);
}

Result<std::vector<std::string>> expand_hostlist(std::string_view text) {
  XOE_ASSIGN(const auto names, split_names(text));
  std::vector<std::string> all;
  for (std::string_view name : names) {
    std::vector<std::string> expanded{""};
    while (!name.empty()) {
      const auto open = name.find('[');
      for (std::string& one : expanded) one.append(name.substr(0, open));
      if (open == std::string_view::npos) break;
      const auto close = name.find(']', open);
      XOE_ASSIGN(const auto numbers, expand_ranges(name.substr(open + 1, close - open - 1), text));
      if (expanded.size() * numbers.size() > kMaxExpanded) return malformed(text);
      std::vector<std::string> next;
      for (const std::string& one : expanded)
        for (const std::string& number : numbers) next.push_back(one + number);
      expanded = std::move(next);
      name.remove_prefix(close + 1);
    }
    if (all.size() + expanded.size() > kMaxExpanded || !std::ranges::all_of(expanded, good_name))
      return malformed(text);
    all.insert(all.end(), expanded.begin(), expanded.end());
  }
  return all;
}

}  // namespace xoe::remote
