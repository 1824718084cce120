// xoe pool agent: tells the pool what the GPUs of this host do.
#include <pthread.h>

#include <csignal>
#include <ctime>

#include "base/error.h"
#include "base/machine.h"
#include "pool/inventory/inventory.h"
#include "tools/pool/verbs.h"

namespace xoe::tools::pool {
namespace {

struct AgentOptions {
  Connection connection = {};
  std::string host = host_name("localhost");
  std::string nvml = "libnvidia-ml.so.1";
  Span interval = std::chrono::seconds(2);
  bool once = false;
};

// True: a signal asks it to end.
bool sleep_until_signal(const sigset_t& ending, Span span) {
  const timespec time = {span.count() / 1000, span.count() % 1000 * 1000000};
  return ::sigtimedwait(&ending, nullptr, &time) > 0;
}

int run_agent(const AgentOptions& options) {
  auto client = connect(options.connection);
  if (!client) return fail(client.error());
  std::vector<std::unique_ptr<xoe::pool::GpuVendor>> vendors;
  vendors.push_back(xoe::pool::nvidia_gpus(options.nvml));
  xoe::pool::Inventory inventory(options.host, std::move(vendors));
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ending, signal);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  std::string said;
  const auto say = [&](const std::string& what) {
    if (what != said) fmt::print(stderr, "xoe pool agent: {}\n", what);
    said = what;
  };
  do {
    const xoe::pool::HostReport report = inventory.report();
    const auto reply = client->post("/v1/report", xoe::pool::json_of(report));
    if (reply && !reply->ok()) return fail(*reply);
    if (!reply && options.once) return fail(reply.error());
    if (!reply)
      say(reply.error().message());
    else
      say(fmt::format("{} reports {} GPUs{}", options.host, report.gpus.size(),
                      report.without.empty() ? "" : ": " + report.without));
  } while (!options.once && !sleep_until_signal(ending, options.interval));
  return 0;
}

}  // namespace

void add_agent(CLI::App& app, int& code) {
  const auto options = std::make_shared<AgentOptions>();
  CLI::App* const verb = app.add_subcommand("agent", "tell the pool what the GPUs of this host do");
  add_connection_options(*verb, options->connection);
  verb->add_option("--host", options->host, "this host's name in the pool")->type_name("NAME")->default_str("its own");
  verb->add_option("--nvml", options->nvml, "NVIDIA's library, if not libnvidia-ml.so.1")->type_name("FILE");
  add_span_option(*verb, "--interval", options->interval, "between two reports");
  verb->add_flag("--once", options->once, "one report, then end");
  verb->callback([options, &code] { code = run_agent(*options); });
}

}  // namespace xoe::tools::pool
