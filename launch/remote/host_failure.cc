#include "launch/remote/host_failure.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/base/text.h"

namespace xoe::remote {
namespace {

constexpr std::size_t kMaxQuotedLines = 6;
constexpr std::size_t kMaxNames = 8;

struct SshFailure {
  std::string_view words;  // of OpenSSH, which it does not translate
  std::string_view kind;
  std::string_view what;
  std::string_view fix;  // {} is the host
};

// The first that fits counts.
constexpr std::array kSshFailures{
    SshFailure{
        "REMOTE HOST IDENTIFICATION HAS CHANGED", "host_key_changed",
        "host key verification failed: its key is not the one in known_hosts",
        "if the host was installed again, remove the old key with ssh-keygen -R {} and connect once with ssh {}; "
        "if not, another machine may answer in its place"},
    SshFailure{"Host key verification failed", "host_key_unknown",
               "host key verification failed: its key is not in known_hosts",
               "connect once with ssh {} and confirm it, or ssh-keyscan {} >> ~/.ssh/known_hosts"},
    SshFailure{"UNPROTECTED PRIVATE KEY FILE", "key_permissions", "ssh refuses a private key that others may read",
               "chmod 600 the key for {}"},
    SshFailure{"Permission denied", "permission_denied",
               "ssh was refused (permission denied): it must work without a password",
               "copy your key with ssh-copy-id {} (ssh-keygen makes one; one with a passphrase needs ssh-agent and "
               "ssh-add) or give another one with --ssh-identity-file"},
    SshFailure{"Too many authentication failures", "permission_denied",
               "ssh was refused (too many authentication failures)", "choose the key for {} with --ssh-identity-file"},
    SshFailure{"Could not resolve hostname", "unknown_name", "there is no host of that name",
               "check the spelling of {}, DNS, /etc/hosts and ~/.ssh/config"},
    SshFailure{"Connection refused", "refused", "unreachable: no ssh server answers there",
               "is sshd running on {} (apt install openssh-server), and on another port (--ssh-port)?"},
    SshFailure{"No route to host", "unreachable", "unreachable: there is no route to it",
               "is {} up, and in a network that is reached from here? See ip route"},
    SshFailure{"Network is unreachable", "unreachable", "unreachable: there is no route to it",
               "is an interface up here whose network leads to {}? See ip route"},
    SshFailure{"timed out", "timeout", "unreachable: it does not answer",
               "is {} up, and does a firewall let ssh through? Another port: --ssh-port"},
    SshFailure{"Connection closed by", "closed", "it closed the connection",
               "see the log of sshd on {} (journalctl -u ssh); MaxStartups may be too low"},
    SshFailure{"Connection reset", "closed", "it closed the connection",
               "see the log of sshd on {} (journalctl -u ssh); MaxStartups may be too low"}};

// The last lines of `text`, for below the message.
void quote(std::string_view text, std::vector<std::string>& lines) {
  auto all = split_text(text, '\n');
  std::erase_if(all, [](std::string& line) {
    while (line.ends_with('\r') || line.ends_with(' ')) line.pop_back();
    return line.empty();
  });
  if (all.size() > kMaxQuotedLines) all.erase(all.begin(), all.end() - kMaxQuotedLines);
  for (const std::string& line : all) lines.push_back("  | " + line);
}

HostFailure make(const AgentConnection& agent, std::string_view what) {
  const std::string from = agent.relay() == nullptr ? "" : fmt::format(" (reached from {})", agent.relay()->host());
  HostFailure failure{.lines = {fmt::format("host {}{}: {}", agent.host(), from, what)}};
  quote(agent.stderr_tail(), failure.lines);
  return failure;
}

std::string end_text(const AgentConnection& agent) {
  return agent.status() ? describe_status(*agent.status()) : "did not end";
}

}  // namespace

Diagnosis diagnose(const AgentConnection& agent, const ConnectOptions& options) {
  const int code = agent.status() && WIFEXITED(*agent.status()) ? WEXITSTATUS(*agent.status()) : -1;
  // A shell complains about the program; others use these codes too.
  const bool about_xoe = agent.stderr_tail().empty() ||
                         agent.stderr_tail().find(options.xoe_path) != std::string::npos ||
                         agent.stderr_tail().find("xoe: ") != std::string::npos;
  if ((code == 127 || code == 126) && about_xoe)
    return {.kind = "xoe_missing",
            .what = fmt::format("{} at {}{}", code == 127 ? "there is no xoe" : "xoe cannot be executed",
                                options.xoe_path, options.search_path ? ", nor in its PATH" : ""),
            .fix = "install Xoe there too, or say where it is with --xoe-path"};
  if (code == 255 || code == 1)
    for (const SshFailure& failure : kSshFailures)
      if (agent.stderr_tail().find(failure.words) != std::string::npos)
        return {.kind = std::string(failure.kind),
                .what = std::string(failure.what),
                .fix = fmt::format(fmt::runtime(failure.fix), agent.host(), agent.host())};
  const std::string method = method_name(agent.method(), options);
  if (!agent.frames().reader().preamble().empty())
    return {
        .kind = "other",
        .what = fmt::format("the program that {} starts there ({} agent) does not answer as an agent of Xoe, and {}",
                            method, options.xoe_path, end_text(agent)),
        .fix = {}};
  return {.kind = "other",
          .what = fmt::format("{} {} before an agent answered", method, end_text(agent)),
          .fix = agent.stderr_tail().empty() ? fmt::format("try it by hand: ssh -o BatchMode=yes {} true", agent.host())
                                             : ""};
}

HostFailure explain_no_agent(const AgentConnection& agent, const ConnectOptions& options) {
  const Diagnosis diagnosis = diagnose(agent, options);
  const std::string& preamble = agent.frames().reader().preamble();
  const bool foreign = diagnosis.kind == "other" && !preamble.empty();
  HostFailure failure = make(agent, fmt::format("{}{}{}", diagnosis.what, diagnosis.fix.empty() ? "" : "; ",
                                                foreign ? "; its output:" : diagnosis.fix));
  if (foreign) quote(preamble, failure.lines);
  return failure;
}

HostFailure explain_no_answer(const AgentConnection& agent, const ConnectOptions& options, bool greeted) {
  if (agent.method() == LaunchMethod::kJoined)
    return make(agent, fmt::format("was not ready within {} (--start-timeout); is its file system slow?",
                                   human_seconds(options.start_timeout)));
  return make(agent, fmt::format("did not answer within {} (--start-timeout): {}", human_seconds(options.start_timeout),
                                 greeted ? "its agent is connected but not ready; is its file system slow?"
                                         : fmt::format("{} has not connected; is the host up and reachable?",
                                                       method_name(agent.method(), options))));
}

HostFailure explain_version(const AgentConnection& agent, const std::string& theirs, const std::string& ours,
                            const ConnectOptions& options) {
  if (agent.method() == LaunchMethod::kJoined)
    return make(agent, fmt::format("has Xoe {}, and this host has {}; use the same version, or image, on all hosts",
                                   theirs.substr(0, 40), ours));
  return make(agent, fmt::format("has Xoe {} at {}, and this host has {}; install the same version on all hosts",
                                 theirs.substr(0, 40), options.xoe_path, ours));
}

HostFailure explain_refusal(const AgentConnection& agent, std::string_view reason, int exit_code) {
  return HostFailure{.lines = {fmt::format("host {}: {}", agent.host(), reason)}, .exit_code = exit_code};
}

HostFailure explain_cut(const AgentConnection& agent, const ConnectOptions& options) {
  if (agent.method() == LaunchMethod::kJoined)
    return make(agent,
                "lost: the connection to its xoe run ended; did the host or the pod go down, or was xoe run killed?");
  return make(agent, fmt::format("lost: the connection to its agent ended ({} {}); did the host go down, or was the "
                                 "agent killed? Its ranks are ended there",
                                 method_name(agent.method(), options), end_text(agent)));
}

HostFailure explain_silence(const AgentConnection& agent, std::chrono::nanoseconds time) {
  return make(agent,
              fmt::format("lost: nothing was heard of it for {} (--host-timeout); the network is cut or the host "
                          "is down. Its agent ends its ranks",
                          human_seconds(time)));
}

std::string explain_behind(const AgentConnection& agent, const std::vector<std::string>& behind) {
  std::string names;
  for (std::size_t i = 0; i < std::min(behind.size(), kMaxNames); ++i)
    names.append(i == 0 ? "" : ", ").append(behind[i]);
  if (behind.size() > kMaxNames) names += fmt::format(" and {} more", behind.size() - kMaxNames);
  return fmt::format("  {} {} reached from {}, and {} with it", names, behind.size() == 1 ? "is" : "are", agent.host(),
                     behind.size() == 1 ? "goes" : "go");
}

}  // namespace xoe::remote
