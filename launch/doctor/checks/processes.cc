#include "launch/doctor/checks/host.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/text.h"

namespace xoe::doctor {
namespace {

constexpr std::int64_t kFewProcesses = 512;

// The first two numbers of "6.1.0-18-amd64".
std::optional<std::pair<std::int64_t, std::int64_t>> version_of(const std::string& release) {
  const auto parts = split_text(release, '.');
  if (parts.size() < 2) return std::nullopt;
  const auto major = parse_integer(parts[0]);
  const auto minor = parse_integer(parts[1].substr(0, parts[1].find_first_not_of("0123456789")));
  if (!major || !minor) return std::nullopt;
  return std::pair(*major, *minor);
}

Finding check_kernel(const ProcessFacts& facts) {
  Finding finding{.id = "process.kernel",
                  .what = fmt::format("Linux {}", facts.kernel),
                  .why = "Xoe watches its peers through pidfds, which Linux has since 5.3"};
  finding.details = {{"release", facts.kernel}};
  const auto version = version_of(facts.kernel);
  if (!version) {
    finding.report(Severity::kSkipped, "the kernel's version is not known");
  } else if (*version < std::pair<std::int64_t, std::int64_t>(5, 3)) {
    finding.advise(Severity::kProblem, "boot a kernel from 5.3 on (Debian 12 has 6.1)");
  }
  return finding;
}

Finding check_ptrace(const ProcessFacts& facts) {
  static constexpr const char* kMeaning[] = {"processes of one user may read each other",
                                             "only descendants may be traced", "only root may trace",
                                             "no process may trace"};
  Finding finding{.id = "process.ptrace",
                  .what = "no restriction beside the user's (no Yama)",
                  .why =
                      "Xoe maps its peers' memory through /proc/PID/fd, which needs the same user and the same PID "
                      "name space, not this setting; Open MPI and UCX read each other's memory "
                      "(process_vm_readv), which it restricts: they then copy twice"};
  finding.details = {{"ptrace_scope", json_or_null(facts.ptrace_scope)}};
  if (!facts.ptrace_scope) return finding;
  const auto scope = std::clamp<std::int64_t>(*facts.ptrace_scope, 0, 3);
  finding.what = fmt::format("ptrace_scope {}: {}", *facts.ptrace_scope, kMeaning[scope]);
  if (scope > 0) {
    finding.advise(Severity::kNote, "only for MPI on one host: as root, sysctl kernel.yama.ptrace_scope=0");
  }
  return finding;
}

Finding check_count(const ProcessFacts& facts, const CgroupLimits& limits) {
  auto most = facts.most_processes;
  if (limits.processes && (!most || *limits.processes < *most)) most = limits.processes;
  Finding finding{.id = "process.count",
                  .what = most ? fmt::format("up to {} processes and threads", *most) : "no limit on processes",
                  .why = "every rank has threads for compute, input and communication: a few for each core"};
  finding.details = {{"limit", json_or_null(most)}};
  if (most && *most < kFewProcesses) {
    finding.advise(
        Severity::kWarning,
        "raise it: ulimit -u, '* soft nproc 65536' in /etc/security/limits.conf, docker run --pids-limit=-1");
  }
  return finding;
}

Finding check_seccomp(const ProcessFacts& facts) {
  Finding finding{.id = "process.seccomp",
                  .what = facts.seccomp ? "system calls are filtered (seccomp)" : "system calls are not filtered",
                  .why = "filters of old container runtimes refuse pidfd_open and process_vm_readv"};
  finding.details = {{"filtered", facts.seccomp}};
  if (facts.seccomp) finding.severity = Severity::kNote;
  return finding;
}

// "container_t" of SELinux's "system_u:system_r:container_t:s0:c1,c2"; empty: it is AppArmor's, which ends with a mode
// ("docker-default (enforce)") or begins with a name space (":host://unconfined").
std::string domain_of(const std::string& label) {
  if (label.starts_with(':') || label.ends_with(')')) return {};
  const auto parts = split_text(label, ':');
  return parts.size() >= 3 ? parts[2] : std::string();
}

// Two domains are there for programs that the policy leaves alone.
bool is_confined(const std::string& domain) {
  return !domain.empty() && !domain.starts_with("unconfined") && domain != "spc_t";
}

void report_domain(Finding& finding, const std::string& domain, bool enforcement_known) {
  const bool container = domain.starts_with("container");
  finding.report(Severity::kNote,
                 !enforcement_known
                     ? fmt::format("labelled {}; whether SELinux enforces it cannot be seen here", domain)
                     : fmt::format("SELinux confines this {} ({})", container ? "container" : "process", domain));
  // Another label of a whole folder such as /home would take it from the host's own programs.
  finding.fix =
      container
          ? "GPUs, network cards and mounted folders: docker run or podman run --security-opt label=disable, or a "
            "policy for them; -v DIR:DIR:z gives a folder the container's label, for folders of the job alone; "
            "ausearch -m avc -ts recent on the host shows what was refused"
          : "ausearch -m avc -ts recent, as root, shows what was refused; a service of one's own: semanage, or "
            "runcon for a try";
}

Finding check_confinement(const ProcessFacts& facts) {
  Finding finding{.id = "process.confined",
                  .what = "no SELinux domain and no AppArmor profile confines this process",
                  .why =
                      "what such a policy refuses looks like missing files, devices and permissions, and only the "
                      "system's log says why"};
  const bool selinux = facts.selinux_enforces.has_value();
  finding.details = {{"selinux_enforces", json_or_null(facts.selinux_enforces)},
                     {"label", facts.label},
                     {"denies_ptrace", facts.denies_ptrace}};
  const std::string domain = domain_of(facts.label);
  // In a container the file that says whether SELinux enforces its policy is hidden; the label is not.
  if (is_confined(domain) && facts.selinux_enforces.value_or(true)) {
    report_domain(finding, domain, selinux);
  } else if (selinux) {
    finding.what = *facts.selinux_enforces ? "SELinux enforces its policy, but does not confine this process"
                                           : "SELinux only logs (permissive)";
  } else if (facts.label.ends_with("(enforce)")) {
    const std::string profile = facts.label.substr(0, facts.label.rfind(" ("));
    finding.report(Severity::kNote, fmt::format("the AppArmor profile {} confines this process", profile),
                   "dmesg | grep apparmor, as root on the host, shows what was refused; another profile: docker run "
                   "--security-opt apparmor=NAME");
  }
  if (facts.denies_ptrace && facts.selinux_enforces.value_or(false)) {
    finding.severity = Severity::kNote;
    finding.what += "; deny_ptrace is on";
    finding.fix +=
        fmt::format("{}only for MPI on one host, as root: setsebool deny_ptrace off", finding.fix.empty() ? "" : "; ");
  }
  return finding;
}

}  // namespace

ProcessFacts read_processes(const Tree& tree) {
  ProcessFacts facts;
  facts.kernel = tree.line("/proc/sys/kernel/osrelease");
  facts.ptrace_scope = tree.number("/proc/sys/kernel/yama/ptrace_scope");
  facts.seccomp = field(tree.text("/proc/self/status").value_or(""), "Seccomp") == "2";
  const auto words = words_of(field(tree.text("/proc/self/limits").value_or(""), "Max processes"));
  if (!words.empty()) facts.most_processes = parse_integer(words[0]);
  if (const auto enforces = tree.number("/sys/fs/selinux/enforce")) facts.selinux_enforces = *enforces == 1;
  facts.denies_ptrace = tree.line("/sys/fs/selinux/booleans/deny_ptrace").starts_with('1');
  // Since Linux 5.1 AppArmor has a file of its own; before it, and for SELinux, there is one for all.
  std::string label = facts.selinux_enforces ? "" : tree.line("/proc/self/attr/apparmor/current");
  if (label.empty()) label = tree.line("/proc/self/attr/current");
  facts.label = label.substr(0, label.find('\0'));
  return facts;
}

Findings check_processes(const ProcessFacts& facts, const CgroupLimits& limits) {
  return {check_kernel(facts), check_ptrace(facts), check_seccomp(facts), check_confinement(facts),
          check_count(facts, limits)};
}

}  // namespace xoe::doctor
