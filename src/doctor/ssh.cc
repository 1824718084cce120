#include "doctor/ssh.h"

#include <fmt/format.h>

#include "doctor/report.h"
#include "doctor/tree.h"

namespace xoe::doctor {
namespace {

std::string shell_word(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

struct Meaning {
  std::string_view words;  // of ssh
  std::string_view kind;
  std::string_view what;
  std::string_view fix;  // {} is the host
};

// The first that fits; OpenSSH's words, which it does not translate.
constexpr Meaning kMeanings[] = {
    {"REMOTE HOST IDENTIFICATION HAS CHANGED", "host_key_changed", "its host key has changed",
     "if the machine was installed anew: ssh-keygen -R {}, then ssh-keyscan {} >> ~/.ssh/known_hosts; if not, somebody "
     "may "
     "be in between"},
    {"Host key verification failed", "host_key_unknown", "its host key is not known here",
     "compare and keep it: ssh {} once by hand, or ssh-keyscan {} >> ~/.ssh/known_hosts"},
    {"Permission denied", "permission_denied", "it does not let us in without a password",
     "ssh-copy-id {} (make a key first with ssh-keygen); with a passphrase start ssh-agent and ssh-add"},
    {"Too many authentication failures", "permission_denied", "it does not let us in: too many keys were tried",
     "name the right key with --ssh-identity-file, for {}"},
    {"Could not resolve hostname", "unknown_name", "its name is not known",
     "is {} spelt rightly? Else enter it in DNS, /etc/hosts or ~/.ssh/config"},
    {"Connection refused", "refused", "it is up, but no ssh server answers",
     "on {}: apt install openssh-server; another port: --ssh-port"},
    {"No route to host", "unreachable", "no way leads to it",
     "is {} on, and in a network that is reached from here? See ip route"},
    {"Network is unreachable", "unreachable", "no way leads to it",
     "is a network up here that reaches {}? See ip route"},
    {"timed out", "timeout", "it does not answer", "is {} on? Does a firewall drop port 22? Another port: --ssh-port"},
    {"Connection closed by", "closed", "it closed the connection",
     "see the log of sshd on {} (journalctl -u ssh); MaxStartups may be too low"},
    {"Connection reset", "closed", "it closed the connection", "see the log of sshd on {} (journalctl -u ssh)"},
    {"UNPROTECTED PRIVATE KEY FILE", "key_permissions", "the private key may be read by others",
     "chmod 600 the key for {}"},
};

std::string with_host(std::string_view text, const std::string& host) {
  std::string out(text);
  for (auto at = out.find("{}"); at != std::string::npos; at = out.find("{}", at + host.size()))
    out.replace(at, 2, host);
  return out;
}

// The last line that says something.
std::string last_line(std::string_view text) {
  const auto lines = lines_of(text);
  if (lines.empty()) return {};
  std::string line = lines.back();
  // ssh ends its lines as a terminal in raw mode wants it.
  if (line.ends_with('\r')) line.pop_back();
  return shown(line, 300);
}

}  // namespace

std::vector<std::string> ssh_arguments(const SshOptions& options, const std::string& host) {
  std::vector<std::string> arguments = options.command;
  const auto add = [&arguments](std::initializer_list<std::string> more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  };
  add({"-T", "-o", "BatchMode=yes", "-o", fmt::format("ConnectTimeout={}", options.connect_timeout)});
  if (options.port != 0) add({"-p", fmt::format("{}", options.port)});
  if (!options.identity_file.empty()) add({"-i", options.identity_file});
  // Whatever shell the user has there, it understands this.
  const std::string script = options.xoe.empty() ? fmt::format("[ -x {0} ] && exec {0} probe; exec xoe doctor probe",
                                                               shell_word(options.program))
                                                 : fmt::format("exec {} doctor probe", shell_word(options.xoe));
  add({"--", host, "exec sh -c " + shell_word(script)});
  return arguments;
}

Finding reach_problem(const std::string& host, int code, std::string_view error, const SshOptions& options) {
  Finding finding{.id = "hosts.reach." + host,
                  .state = State::kProblem,
                  .what = "",
                  .why = "xoe run starts programs on other hosts over ssh, without a password"};
  std::string kind = "other";
  if (code == 127 || code == 126) {
    kind = "xoe_missing";
    finding.what =
        fmt::format("{}: reached, but {} is not there{}", host, options.xoe.empty() ? options.program : options.xoe,
                    options.xoe.empty() ? ", nor xoe in its PATH" : "");
    finding.fix =
        "install the same Xoe there, in the same folder (or share the folder), or say where it is: --remote-xoe PATH";
  } else if (code == -1) {
    kind = "timeout";
    finding.what = fmt::format("{}: ssh gave no answer in time", host);
    finding.fix = fmt::format("try by hand: ssh -o BatchMode=yes {} true", host);
  }
  for (const Meaning& meaning : kMeanings) {
    if (!finding.what.empty() || error.find(meaning.words) == std::string_view::npos) continue;
    kind = meaning.kind;
    finding.what = fmt::format("{}: {}", host, meaning.what);
    finding.fix = with_host(meaning.fix, host);
  }
  if (finding.what.empty()) {
    finding.what = fmt::format("{}: {} ended with code {}", host, options.command.front(), code);
    finding.fix = fmt::format("try by hand: ssh -o BatchMode=yes {} true", host);
  }
  const std::string words = last_line(error);
  if (!words.empty()) finding.what += fmt::format(" ({})", words);
  finding.details = {{"host", host}, {"reached", false}, {"kind", kind}, {"code", code}, {"ssh", words}};
  return finding;
}

}  // namespace xoe::doctor
