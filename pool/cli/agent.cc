// xoe pool agent: tells the pool what the GPUs of this host do.
#include <algorithm>
#include <csignal>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/utf8.h"
#include "pool/cli/held_signals.h"
#include "pool/cli/verbs.h"
#include "pool/enforce/device_files.h"
#include "pool/inventory/inventory.h"

namespace xoe::tools::pool {
namespace {

using xoe::pool::DeviceFiles;

struct AgentOptions {
  Connection connection = {};
  std::string host = host_name("localhost");
  std::string nvml = "libnvidia-ml.so.1";
  std::string rocm_smi = "librocm_smi64.so";
  Span interval = std::chrono::seconds(2);
  bool once = false;
  bool end_idle = false;
  bool guard = false;
  std::string system_root = {};
};

// Those of idle leases. Only processes of the report that was just sent: a process id may be used again.
void end_processes(const xoe::pool::HostReport& report, const std::vector<std::int64_t>& ended) {
  for (const auto& activity : report.activity)
    for (const auto& process : activity.processes)
      if (std::ranges::find(ended, process.pid) != ended.end() && !process.user.empty()) {
        const bool sent = ::kill(static_cast<pid_t>(process.pid), SIGTERM) == 0;
        fmt::print(stderr, "xoe pool agent: SIGTERM to process {} of {}: its lease is idle{}\n", process.pid,
                   process.user, sent ? std::string() : "; " + errno_text(errno));
      }
}

// Keeps the device files of GPUs closed to users who do not hold them.
class Guard {
 public:
  static Result<Guard> open(const std::string& root) {
    XOE_ASSIGN(auto files, DeviceFiles::open(xoe::pool::places_below(root)));
    return Guard(std::move(files));
  }

  // What the last look at the holders has made of the files.
  void add_to(xoe::pool::HostReport& report) const {
    for (std::size_t i = 0; i < report.gpus.size(); ++i)
      if (const auto users = now_.users.find(report.gpus[i].uuid); users != now_.users.end())
        report.activity[i].open_to.emplace(users->second.begin(), users->second.end());
    for (const std::string& problem : now_.problems) report.add_problem(problem);
  }

  // True: the pool should hear of it at once, since a holder waits for its files.
  bool follow(const xoe::pool::HostReport& report, const std::vector<xoe::pool::GpuHolder>& holding) {
    std::map<std::string, std::set<std::string>> holders;
    for (const auto& [gpu, user] : holding) holders[gpu].insert(user);
    std::vector<xoe::pool::GpuHolders> gpus;
    for (const auto& gpu : report.gpus) {
      const auto found = holders.find(gpu.uuid);
      gpus.push_back({gpu.uuid, gpu.pci, found == holders.end() ? std::set<std::string>() : found->second});
    }
    auto before = std::exchange(now_, files_.allow(gpus));
    return before.users != now_.users || before.problems != now_.problems;
  }

 private:
  explicit Guard(DeviceFiles files) : files_(std::move(files)) {}

  DeviceFiles files_;
  DeviceFiles::Allowed now_;
};

int run_agent(const AgentOptions& options) {
  auto client = connect(options.connection, std::chrono::seconds(1));
  if (!client) return fail(client.error());
  std::optional<Guard> guard;
  if (options.guard) {
    auto opened = Guard::open(options.system_root);
    if (!opened) return fail(opened.error());
    guard.emplace(std::move(*opened));
  }
  std::vector<std::unique_ptr<xoe::pool::GpuVendor>> vendors;
  vendors.push_back(xoe::pool::nvidia_gpus(options.nvml));
  vendors.push_back(xoe::pool::amd_gpus(options.rocm_smi));
  xoe::pool::Inventory inventory(options.host, std::move(vendors));
  const HeldSignals held;
  std::string said;
  const auto say = [&](const std::string& what) {
    if (what != said) fmt::print(stderr, "xoe pool agent: {}\n", xoe::printable_utf8(what));
    said = what;
  };
  bool soon = false;  // the pool should hear of what has changed
  do {
    const auto looked = std::chrono::steady_clock::now();
    xoe::pool::HostReport report = inventory.report();
    if (guard) guard->add_to(report);
    report.age = std::chrono::duration_cast<Span>(std::chrono::steady_clock::now() - looked);
    const auto reply = client->post("/v1/report", xoe::pool::json_of(report));
    if (reply && !reply->ok() && (options.once || is_for_good(*reply))) return fail(*reply);
    soon = false;
    if (reply && reply->ok() && (options.end_idle || guard)) {
      const auto orders = xoe::pool::orders_of(reply->body);
      if (!orders) return fail(orders.error());
      if (options.end_idle) end_processes(report, orders->end);
      if (guard) soon = guard->follow(report, orders->holders);
    }
    if (!reply && options.once) return fail(reply.error());
    if (!reply)
      say(reply.error().message());
    else if (!reply->ok())
      say(reply->message());
    else
      say(fmt::format("{} reports {} GPUs{}{}", options.host, report.gpus.size(),
                      report.without.empty() ? "" : ": " + report.without,
                      report.problem.empty() ? "" : "; " + report.problem));
  } while (!options.once && !sleep_until_signal(soon ? Span(0) : options.interval));
  return 0;
}

}  // namespace

bool sleep_until_signal(Span span) {
  const sigset_t ending = HeldSignals::ending_signals();
  const timespec time = {span.count() / 1000, span.count() % 1000 * 1000000};
  return ::sigtimedwait(&ending, nullptr, &time) > 0;
}

void add_agent(CLI::App& app, int& code) {
  const auto options = std::make_shared<AgentOptions>();
  CLI::App* const verb = app.add_subcommand("agent", "tell the pool what the GPUs of this host do");
  add_connection_options(*verb, options->connection);
  verb->add_option("--host", options->host, "this host's name in the pool")->type_name("NAME")->default_str("its own");
  verb->add_option("--nvml", options->nvml, "NVIDIA's library, if not libnvidia-ml.so.1")->type_name("FILE");
  verb->add_option("--rocm-smi", options->rocm_smi, "AMD's library, if not librocm_smi64.so")->type_name("FILE");
  add_span_option(*verb, "--interval", options->interval, "between two reports");
  verb->add_flag("--once", options->once, "one report, then end");
  verb->add_flag("--end-idle", options->end_idle,
                 "send SIGTERM to the processes of idle leases before they end; needs root");
  verb->add_flag(
      "--guard-devices", options->guard,
      "keep the device files of GPUs closed to users who do not hold them, while the agent runs; needs root");
  verb->add_option("--system-root", options->system_root, "where a container has the host's /dev, /proc and /run")
      ->type_name("DIR")
      ->default_str("/");
  verb->callback([options, &code] { code = run_agent(*options); });
}

}  // namespace xoe::tools::pool
