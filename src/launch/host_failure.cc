#include "launch/host_failure.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"
#include "launch/report.h"

namespace xoe::launch {
namespace {

constexpr std::size_t kMostLines = 6;
constexpr std::size_t kMostNames = 8;

// What ssh says, in part, and what is meant by it. The first that fits counts.
struct Meaning {
  std::string_view words;
  std::string_view what;
};
constexpr std::array kMeanings{
    Meaning{"REMOTE HOST IDENTIFICATION HAS CHANGED",
            "host key verification failed: its key is another one than known_hosts has; if the host was set up anew, "
            "remove the old key with ssh-keygen -R {}"},
    Meaning{"Host key verification failed",
            "host key verification failed: its key is not in known_hosts; connect once with ssh {} and confirm it"},
    Meaning{"Permission denied",
            "ssh was refused (permission denied): it must work without a password; copy your key with ssh-copy-id {} "
            "or give another one with --ssh-identity-file"},
    Meaning{"Too many authentication failures",
            "ssh was refused (too many authentication failures): choose the key for {} with --ssh-identity-file"},
    Meaning{"Could not resolve hostname", "there is no host of that name; check the spelling, DNS and /etc/hosts ({})"},
    Meaning{"Connection refused",
            "unreachable: no ssh server answers there; is sshd running on {}, and on another port (--ssh-port)?"},
    Meaning{"No route to host", "unreachable: no way leads there; is {} up and in this network?"},
    Meaning{"Network is unreachable", "unreachable: no way leads there; is {} in a network that this host knows?"},
    Meaning{"timed out", "unreachable: it does not answer; is {} up, and does a firewall let ssh through?"}};

std::string seconds_text(std::chrono::nanoseconds time) {
  return human_seconds(std::chrono::duration<double>(time).count());
}

// The last lines of what the shell said, for below the message.
void quote(std::string_view said, std::vector<std::string>& lines) {
  auto all = split_text(said, '\n');
  std::erase_if(all, [](std::string& line) {
    while (line.ends_with('\r') || line.ends_with(' ')) line.pop_back();
    return line.empty();
  });
  if (all.size() > kMostLines) all.erase(all.begin(), all.end() - kMostLines);
  for (const std::string& line : all) lines.push_back("  | " + line);
}

HostFailure make(const HostLink& link, std::string_view what, int exit_code = 125) {
  const std::string from = link.relay() == nullptr ? "" : fmt::format(" (reached from {})", link.relay()->name());
  HostFailure failure{.lines = {fmt::format("host {}{}: {}", link.name(), from, what)}, .exit_code = exit_code};
  quote(link.said(), failure.lines);
  return failure;
}

std::string end_text(const HostLink& link) { return link.status() ? describe_status(*link.status()) : "did not end"; }

// By ssh's own words; empty when they are not known.
std::string meaning_of(const HostLink& link) {
  for (const Meaning& meaning : kMeanings)
    if (link.said().find(meaning.words) != std::string::npos)
      return fmt::format(fmt::runtime(meaning.what), link.name());
  return {};
}

}  // namespace

HostFailure explain_no_agent(const HostLink& link, const HostOptions& where, const std::string& xoe_path) {
  const std::string way = way_name(link.share().way, where);
  const int code = link.status() && WIFEXITED(*link.status()) ? WEXITSTATUS(*link.status()) : -1;
  if (code == 127 || code == 126)
    return make(link, fmt::format("{} at {}; install Xoe there too, or say where it is with --xoe-path",
                                  code == 127 ? "there is no xoe" : "xoe cannot be executed", xoe_path));
  if (code == 255 || code == 1)
    if (const std::string meaning = meaning_of(link); !meaning.empty()) return make(link, meaning);
  if (!link.pipe().reader().noise().empty()) {
    HostFailure failure = make(
        link, fmt::format("what {} starts there ({} agent) does not answer as an agent of Xoe, but {}: its output is",
                          way, xoe_path, end_text(link)));
    quote(link.pipe().reader().noise(), failure.lines);
    return failure;
  }
  return make(link, fmt::format("{} {} before an agent answered{}", way, end_text(link),
                                link.said().empty() ? "; try it by hand" : ""));
}

HostFailure explain_no_answer(const HostLink& link, const HostOptions& where, bool greeted) {
  return make(link, fmt::format("did not answer within {} (--start-timeout): {}", seconds_text(where.start_timeout),
                                greeted ? "its agent was connected but is not ready; is its file system slow?"
                                        : fmt::format("{} has not connected; is the host up and reachable?",
                                                      way_name(link.share().way, where))));
}

HostFailure explain_version(const HostLink& link, const std::string& theirs, const std::string& ours,
                            const std::string& xoe_path) {
  return make(link, fmt::format("has Xoe {} at {}, and this host has {}; install the same version on all hosts",
                                theirs.substr(0, 40), xoe_path, ours));
}

HostFailure explain_refusal(const HostLink& link, std::string_view reason, int exit_code) {
  return HostFailure{.lines = {fmt::format("host {}: {}", link.name(), reason)}, .exit_code = exit_code};
}

HostFailure explain_cut(const HostLink& link, const HostOptions& where) {
  return make(link, fmt::format("lost: the connection to its agent ended ({} {}); did the host go down, or was the "
                                "agent killed? Its ranks are ended there",
                                way_name(link.share().way, where), end_text(link)));
}

HostFailure explain_silence(const HostLink& link, std::chrono::nanoseconds time) {
  return make(link, fmt::format("lost: nothing was heard of it for {} (--host-timeout); the network is cut or the host "
                                "is down. Its agent ends its ranks",
                                seconds_text(time)));
}

std::string explain_behind(const HostLink& link, const std::vector<std::string>& behind) {
  std::string names;
  for (std::size_t i = 0; i < std::min(behind.size(), kMostNames); ++i)
    names.append(i == 0 ? "" : ", ").append(behind[i]);
  if (behind.size() > kMostNames) names += fmt::format(" and {} more", behind.size() - kMostNames);
  return fmt::format("  {} {} reached from {}, and {} with it", names, behind.size() == 1 ? "is" : "are", link.name(),
                     behind.size() == 1 ? "goes" : "go");
}

}  // namespace xoe::launch
