// xoe doctor: are this machine and other hosts ready for training, and what must be fixed?
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/bootstrap/socket_address.h"
#include "core/command_line/parse/command_line.h"
#include "core/command_line/terminal.h"
#include "core/command_line/version.h"
#include "launch/doctor/cluster/cluster.h"
#include "launch/doctor/cluster/probe_agent.h"
#include "launch/doctor/examine.h"
#include "launch/doctor/report/report.h"
#include "launch/remote/host_list.h"

namespace {

using namespace xoe;
using doctor::ClusterResult;
using doctor::ExamineOptions;
using doctor::HostResult;
using doctor::Json;
using doctor::Severity;

constexpr int kProblems = 1;
using tools::kUsageError;

constexpr const char* kExamples = R"(Examples:
  xoe doctor                          this machine
  xoe doctor --only gpu,rdma -v       two groups, with all details
  xoe doctor -H node1,node2           other hosts too, and the network between them
  xoe doctor --compute                products of matrices on each device too
  xoe doctor --json | jq '.findings[] | select(.state == "problem")'

Groups: cpu, memory, process, virtual, container (in one), network, rdma, pcie,
gpu, xoe, python, compute (with --compute).

Exit codes: 0 no problem found, 1 a problem (with --strict: or a warning),
2 wrong usage.)";

// `xoe doctor --hosts`: other hosts, and the network between them.
struct DoctorHostsOptions {
  std::string hosts = {};  // "a,b:4"
  std::string hostfile = {};
  remote::ConnectOptions connect = {.start_timeout = std::chrono::seconds(5)};
};

struct DoctorOptions {
  ExamineOptions examine;
  DoctorHostsOptions hosts;
  bool json = false;
  bool verbose = false;
  bool strict = false;
};

doctor::TextOptions text_options(const DoctorOptions& options) {
  return {.colours = command_line::colours_wanted(STDOUT_FILENO, Env::process()),
          .verbose = options.verbose,
          .width = std::clamp(command_line::terminal_width(STDOUT_FILENO, 80), 60, 120)};
}

int print(const std::string& text) {
  fmt::print("{}", text);
  if (std::fflush(stdout) == 0) return 0;
  fmt::print(stderr, "xoe doctor: cannot write the output: {}\n", errno_text(errno));
  return kProblems;
}

int code_for(const doctor::Count& count, bool strict) {
  return count[Severity::kProblem] > 0 || (strict && count[Severity::kWarning] > 0) ? kProblems : 0;
}

int fail(const Error& error, int code) {
  fmt::print(stderr, "xoe doctor: {}\n", error.message());
  return code;
}

// In the order of the list, each once; empty without a list.
Result<std::vector<std::string>> named_hosts(const DoctorHostsOptions& options) {
  std::vector<remote::Host> hosts;
  if (!options.hosts.empty()) {
    XOE_ASSIGN(hosts, remote::parse_hosts(options.hosts));
  } else if (!options.hostfile.empty()) {
    XOE_ASSIGN(hosts, remote::read_hostfile(options.hostfile));
  }
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (remote::Host& host : hosts) names.push_back(std::move(host.name));
  return names;
}

// `program`: the whole path of this one; without --xoe-path, the other hosts have xoe in the same folder or in their
// PATH.
doctor::ClusterOptions cluster_options(const DoctorHostsOptions& options, std::vector<std::string> hosts,
                                       const std::string& program) {
  doctor::ClusterOptions cluster{.hosts = std::move(hosts), .connect = options.connect};
  if (cluster.connect.xoe_path.empty()) {
    cluster.connect.xoe_path = std::filesystem::path(program).parent_path() / "xoe";
    cluster.connect.search_path = true;
  }
  if (::isatty(STDERR_FILENO) != 0)
    cluster.progress = [](const std::string& step) { fmt::print(stderr, "xoe doctor: {} ...\n", step); };
  return cluster;
}

// The findings about the network and about each host; of the hosts only warnings and problems, unless verbose.
std::string cluster_text(const ClusterResult& result, const doctor::TextOptions& options) {
  std::string out = findings_text(result.findings, options);
  for (const HostResult& host : result.hosts) {
    if (!host.report) continue;
    doctor::Findings findings;
    for (const doctor::Finding& finding : host.report->findings)
      if (options.verbose || finding.severity == Severity::kWarning || finding.severity == Severity::kProblem)
        findings.push_back(finding);
    const std::string name = doctor::printable(host.name, 255);
    const std::string count = doctor::count_text(count_severities(host.report->findings));
    out += fmt::format("\n{}: {}\n", options.colours ? fmt::format("\033[1m{}\033[0m", name) : name, count);
    if (!findings.empty()) out += "\n" + findings_text(findings, options);
  }
  return out;
}

// Counts the findings of all hosts.
doctor::Count count_all(const doctor::Report& here, const ClusterResult& result) {
  doctor::Findings all = here.findings;
  append(all, result.findings);
  for (const HostResult& host : result.hosts)
    if (host.report) append(all, host.report->findings);
  return count_severities(all);
}

// The report of this machine, with the other hosts' reports in it.
Json cluster_json(const doctor::Report& here, const ClusterResult& result) {
  Json json = json_of(here);
  for (const doctor::Finding& finding : result.findings) json["findings"].push_back(json_of(finding));
  json["hosts"] = Json::array();
  for (const HostResult& host : result.hosts) json["hosts"].push_back(json_of(host));
  json["pairs"] = Json::array();
  for (const doctor::Pair& pair : result.pairs) json["pairs"].push_back(json_of(pair));
  json["summary"] = json_of(count_all(here, result));
  return json;
}

int examine_here(const DoctorOptions& options, const doctor::Report& report) {
  const int printed =
      print(options.json ? doctor::to_line(json_of(report)) + "\n" : report_text(report, text_options(options)));
  return printed != 0 ? printed : code_for(count_severities(report.findings), options.strict);
}

int examine_hosts(const DoctorOptions& options, const doctor::Report& here, std::vector<std::string> hosts) {
  const auto cluster = cluster_options(options.hosts, std::move(hosts), options.examine.program);
  const auto result = doctor::examine_hosts(cluster, here);
  if (!result) return fail(result.error(), kProblems);
  const auto count = count_all(here, *result);
  const int printed =
      print(options.json ? doctor::to_line(cluster_json(here, *result)) + "\n"
                         : fmt::format("{}\n{}\nall hosts: {}\n", report_text(here, text_options(options)),
                                       cluster_text(*result, text_options(options)), doctor::count_text(count)));
  return printed != 0 ? printed : code_for(count, options.strict);
}

int examine(const DoctorOptions& options) {
  auto hosts = named_hosts(options.hosts);
  if (!hosts) return fail(hosts.error(), kUsageError);
  const auto report = doctor::examine(options.examine);
  if (!report) return fail(report.error(), kUsageError);
  return hosts->empty() ? examine_here(options, *report) : examine_hosts(options, *report, std::move(*hosts));
}

// For `xoe run`, which is linked without the system's resolver.
int print_addresses(const std::string& host) {
  const auto numbers = bootstrap::SocketAddress::resolve_all(host);
  if (!numbers) return fail(numbers.error(), kProblems);
  return print(fmt::format("{}\n", fmt::join(*numbers, "\n")));
}

int answer_requests(const DoctorOptions& options) {
  const auto answered = doctor::answer_requests(Fd(STDIN_FILENO), Fd(STDOUT_FILENO), options.examine);
  return answered ? 0 : fail(answered.error(), kProblems);
}

void add_options(CLI::App& app, DoctorOptions& options) {
  app.add_option("--only", options.examine.only, "these groups alone")->delimiter(',')->type_name("GROUP,...");
  app.add_flag("--compute", options.examine.compute,
               "multiply matrices on the CPU and each GPU, of this machine, with PyTorch: are they right, how fast?");
  app.add_flag("--json", options.json, "print one JSON object");
  app.add_flag("-v,--verbose", options.verbose, "why each check matters, and all that was seen");
  app.add_flag("--strict", options.strict, "warnings fail too");
  app.add_option("--root", options.examine.root, "read /proc, /sys, /dev and /etc below this folder")->type_name("DIR");
  app.add_option("--nvml", options.examine.nvml, "NVIDIA's library, if not libnvidia-ml.so.1")->type_name("FILE");
  app.add_option("--nccl", options.examine.nccl, "NCCL")->type_name("FILE");
}

void add_host_options(CLI::App& app, DoctorOptions& options) {
  auto& hosts = options.hosts;
  auto* const list =
      app.add_option("-H,--hosts", hosts.hosts, "other hosts, reached over ssh")
          ->type_name("A,B:SLOTS,...")
          ->check([](const std::string& text) { return text.empty() ? std::string("names no host") : std::string(); });
  app.add_option("--hostfile", hosts.hostfile, "the same from a file: a line each")->type_name("FILE")->excludes(list);
  app.add_option("--ssh-port", hosts.connect.ssh_port, "port of their ssh servers")->check(CLI::Range(1, 65535));
  app.add_option("--ssh-identity-file", hosts.connect.ssh_identity_file, "private key")->type_name("FILE");
  app.add_option("--ssh-command", hosts.connect.ssh_command, "in place of ssh; may have options")->type_name("COMMAND");
  app.add_option_function<int>(
         "--connect-timeout", [&hosts](int seconds) { hosts.connect.start_timeout = std::chrono::seconds(seconds); },
         "seconds")
      ->check(CLI::Range(1, 600))
      ->default_str("5");
  app.add_option("--xoe-path,--remote-xoe", hosts.connect.xoe_path,
                 "of xoe on the other hosts, if it is elsewhere there")
      ->type_name("PATH");
}

}  // namespace

int main(int argc, char** argv) {
  // A full disk, a limit or a closed pipe becomes an error instead of ending the program.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Is this machine ready for training, and what must be fixed?", "xoe doctor");
  app.footer(kExamples);
  DoctorOptions options;
  options.examine.version = std::string(command_line::version());
  std::error_code ignored;
  options.examine.program = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  if (const char* const folder = std::getenv("XOE_PLUGIN_DIR")) options.examine.plugins = folder;
  add_options(app, options);
  add_host_options(app, options);
  const CLI::App* const probe =
      app.add_subcommand("probe", "answer the requests of another xoe doctor; an agent starts this")->group("");
  std::string host;
  CLI::App* const address = app.add_subcommand("address", "print a host's addresses; xoe run starts this")->group("");
  address->add_option("HOST", host)->required();
  if (const auto answer = tools::understand(app, argc, argv)) return tools::tell(*answer);
  if (address->parsed()) return print_addresses(host);
  return probe->parsed() ? answer_requests(options) : examine(options);
}
