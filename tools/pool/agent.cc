// xoe pool agent: tells the pool what the GPUs of this host do.
#include <algorithm>
#include <csignal>
#include <ctime>

#include "base/error.h"
#include "base/machine.h"
#include "pool/inventory/inventory.h"
#include "tools/pool/held_signals.h"
#include "tools/pool/verbs.h"

namespace xoe::tools::pool {
namespace {

struct AgentOptions {
  Connection connection = {};
  std::string host = host_name("localhost");
  std::string nvml = "libnvidia-ml.so.1";
  std::string rocm_smi = "librocm_smi64.so";
  Span interval = std::chrono::seconds(2);
  bool once = false;
  bool end_idle = false;
};

// Those of idle leases. Only processes of the report that was just sent: a process id may be used again.
void end_processes(const xoe::pool::HostReport& report, const Json& answer) {
  const auto listed = answer.find("end");
  if (listed == answer.end() || !listed->is_array()) return;
  for (const auto& activity : report.activity)
    for (const auto& process : activity.processes)
      if (std::ranges::find(*listed, Json(process.pid)) != listed->end() && !process.user.empty()) {
        const bool sent = ::kill(static_cast<pid_t>(process.pid), SIGTERM) == 0;
        fmt::print(stderr, "xoe pool agent: SIGTERM to process {} of {}: its lease is idle{}\n", process.pid,
                   process.user, sent ? std::string() : "; " + errno_text(errno));
      }
}

int run_agent(const AgentOptions& options) {
  auto client = connect(options.connection, std::chrono::seconds(1));
  if (!client) return fail(client.error());
  std::vector<std::unique_ptr<xoe::pool::GpuVendor>> vendors;
  vendors.push_back(xoe::pool::nvidia_gpus(options.nvml));
  vendors.push_back(xoe::pool::amd_gpus(options.rocm_smi));
  xoe::pool::Inventory inventory(options.host, std::move(vendors));
  const HeldSignals held;
  std::string said;
  const auto say = [&](const std::string& what) {
    if (what != said) fmt::print(stderr, "xoe pool agent: {}\n", what);
    said = what;
  };
  do {
    const xoe::pool::HostReport report = inventory.report();
    const auto reply = client->post("/v1/report", xoe::pool::json_of(report));
    if (reply && !reply->ok() && (options.once || is_for_good(*reply))) return fail(*reply);
    if (reply && reply->ok() && options.end_idle) end_processes(report, reply->body);
    if (!reply && options.once) return fail(reply.error());
    if (!reply)
      say(reply.error().message());
    else if (!reply->ok())
      say(reply->message());
    else
      say(fmt::format("{} reports {} GPUs{}", options.host, report.gpus.size(),
                      report.without.empty() ? "" : ": " + report.without));
  } while (!options.once && !sleep_until_signal(options.interval));
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
  verb->callback([options, &code] { code = run_agent(*options); });
}

}  // namespace xoe::tools::pool
