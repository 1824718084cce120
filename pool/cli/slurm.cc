// xoe pool slurm agent: leases become allocations of a Slurm cluster.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "pool/cli/held_signals.h"
#include "pool/cli/verbs.h"
#include "pool/core/names.h"
#include "pool/server/host_reporter.h"
#include "pool/slurm/agent.h"

namespace xoe::tools::pool {
namespace {

namespace slurm = xoe::pool::slurm;

struct SlurmOptions {
  Connection connection = {};
  slurm::Rules rules = {};
  Span interval = std::chrono::seconds(2);
  bool once = false;
};

class ClusterLoop {
 public:
  ClusterLoop(const SlurmOptions& options, Client client)
      : options_(options), reporter_(std::move(client)), agent_(slurm::run_program, options.rules) {}

  int run() {
    do {
      if (const int code = look(); code != 0) return code;
    } while (!options_.once && !sleep_until_signal(options_.interval));
    return 0;
  }

 private:
  // Not 0: the program ends with it. What does not answer now may do so later.
  int look() {
    std::vector<xoe::pool::ClusterLease> leases;
    if (const int code = report(&leases); code != 0 || !reported_) return code;
    const bool is_refused = !refused_.empty();
    const auto log = agent_.apply(leases, refused_);
    for (const std::string& line : log) say_once(line);
    if (!log.empty())
      if (const int again = report(nullptr); again != 0) return again;
    return options_.once && is_refused ? kFailed : 0;
  }

  int report(std::vector<xoe::pool::ClusterLease>* leases) {
    reported_ = false;
    const auto reports = agent_.observe();
    if (!reports) return tell(reports.error());
    auto round = reporter_.send(*reports);
    if (!round) return round.error().code() == Code::kUnavailable ? tell(round.error()) : fail(round.error());
    if (round->not_allowed) return fail(*round->not_allowed);
    refused_ = std::move(round->refused);
    for (const std::string& line : round->news) say(line);
    for (const auto& node : *reports)
      if (!node.problem.empty() && !refused_.contains(node.host)) say_once(node.host + ": " + node.problem);
    for (const auto& orders : round->orders)
      if (leases != nullptr) leases->insert(leases->end(), orders.leases.begin(), orders.leases.end());
    reported_ = true;
    return 0;
  }

  int tell(const Error& error) {
    if (options_.once) return fail(error);
    say_once(error.message());
    return 0;
  }

  static void say(const std::string& what) { fmt::print(stderr, "xoe pool slurm: {}\n", xoe::printable_utf8(what)); }
  void say_once(const std::string& what) {
    if (said_.size() > 1000) said_.clear();
    if (said_.insert(what).second) say(what);
  }

  const SlurmOptions& options_;
  xoe::pool::HostReporter reporter_;
  slurm::Agent agent_;
  std::set<std::string> said_;
  std::set<std::string> refused_;  // nodes whose reports the pool did not take
  bool reported_ = false;
};

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 32 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; });
}

int run_slurm_agent(SlurmOptions options) {
  const HeldSignals held;
  auto client = connect(options.connection, std::chrono::seconds(1));
  if (!client) return fail(client.error());
  options.rules.as_users = ::geteuid() == 0;
  return ClusterLoop(options, std::move(*client)).run();
}

}  // namespace

void add_slurm(CLI::App& app, int& code) {
  CLI::App* const verb = app.add_subcommand("slurm", "GPUs of a Slurm cluster");
  verb->require_subcommand(1);
  const auto options = std::make_shared<SlurmOptions>();
  CLI::App* const agent = verb->add_subcommand(
      "agent",
      "tell the pool of a cluster's GPUs, and make allocations of their leases; as root, for the leases' users");
  add_connection_options(*agent, options->connection);
  agent->add_option("--partition", options->rules.partition, "of the allocations, if not the default one")
      ->type_name("NAME");
  agent
      ->add_option("--prefix", options->rules.prefix,
                   "of the names and comments of its jobs; of its own for each pool that shares a cluster")
      ->type_name("TEXT")
      ->check([](const std::string& text) {
        return is_name(text) ? std::string() : "expected up to 32 letters, digits and dashes";
      })
      ->capture_default_str();
  add_span_option(*agent, "--interval", options->interval, "between two looks");
  agent->add_flag("--once", options->once, "one look, then end");
  agent->callback([options, &code] { code = run_slurm_agent(*options); });
}

}  // namespace xoe::tools::pool
