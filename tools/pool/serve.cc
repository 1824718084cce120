// xoe pool serve: the server, and its token on the first start.
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "base/make_folder.h"
#include "base/output_file.h"
#include "base/random_token.h"
#include "pool/core/command_queue.h"
#include "pool/inventory/inventory.h"
#include "pool/server/http_server.h"
#include "pool/state/token.h"
#include "tools/manners/command_line.h"
#include "tools/pool/held_signals.h"
#include "tools/pool/verbs.h"

namespace xoe::tools::pool {
namespace {

using xoe::pool::CommandQueue;
using xoe::pool::GiveWayPolicy;
using xoe::pool::HttpServer;
using xoe::pool::Pool;
using xoe::pool::Store;

struct ServeOptions {
  std::string state = {};
  xoe::pool::ServerOptions server = {.port = kDefaultPort};
  xoe::pool::Policy policy = {};
};

// A pool without users gets its first one: the user who starts it.
Status add_first_user(Pool& pool, const std::string& state) {
  if (!pool.state().users.empty()) return {};
  XOE_ASSIGN(const std::string token, random_token());
  std::string path = default_token_file();
  if (std::filesystem::exists(path)) path = state + "/admin-token";
  if (!make_folder_of(path))
    return failure(Code::kUnavailable, "cannot make the folder of {}: {}", path, errno_text(errno));
  XOE_TRY(pool.begin(xoe::pool::system_now()));
  const std::string name = xoe::pool::user_of_process(::getpid());
  XOE_TRY(pool.set_user({.name = name}, {.name = name,
                                         .role = xoe::pool::Role::kAdmin,
                                         .token_hash = xoe::pool::hash_of_token(token),
                                         .max_priority = 100}));
  XOE_ASSIGN(const bool made, create_private_file(path, token + "\n"));
  if (!made) return failure(Code::kUnavailable, "{} exists and is of another pool: move it away", path);
  XOE_TRY(pool.finish());
  fmt::print(stderr, "the first user is {}, an admin; its token is in {}\n", name, path);
  return {};
}

Result<std::unique_ptr<CommandQueue>> open_queue(const ServeOptions& options) {
  const std::string file = options.state + "/pool.db";
  if (!make_folder_of(file)) return failure(Code::kUnavailable, "cannot make {}: {}", options.state, errno_text(errno));
  XOE_ASSIGN(Store store, Store::open(file));
  XOE_ASSIGN(Pool pool, Pool::open(std::move(store), options.policy));
  XOE_TRY(add_first_user(pool, options.state));
  return std::make_unique<CommandQueue>(std::move(pool), xoe::pool::system_now);
}

int serve(const ServeOptions& options) {
  const HeldSignals held;  // also of the threads that start from here on
  const auto queue = open_queue(options);
  if (!queue) return fail(queue.error());
  const auto server = HttpServer::start(**queue, xoe::pool::system_now, options.server);
  if (!server) return fail(server.error());
  const bool tls = !options.server.certificate.empty();
  const int printed = print(fmt::format("the pool listens on {}://{}:{}\n", tls ? "https" : "http",
                                        options.server.address, (*server)->port()));
  if (printed != 0) return printed;
  int signal = 0;
  const sigset_t ending = HeldSignals::ending_signals();
  ::sigwait(&ending, &signal);
  return 0;
}

void add_policy_options(CLI::App& verb, xoe::pool::Policy& policy) {
  add_span_option(verb, "--max-duration", policy.max_duration, "of a lease");
  add_span_option(verb, "--expiry-warning", policy.expiry_warning, "before the end of a lease");
  add_span_option(verb, "--host-timeout", policy.host_timeout, "without a report of its agent, a host is offline");
  verb.add_option("--max-waiting", policy.max_waiting, "leases of one user in the queue")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  add_span_option(verb, "--waiting-timeout", policy.waiting_timeout,
                  "a client that is silent for longer leaves the queue");
  add_choice<GiveWayPolicy>(
      verb, "--give-way", policy.give_way,
      {{"off", GiveWayPolicy::kOff}, {"ask", GiveWayPolicy::kAsk}, {"reclaim", GiveWayPolicy::kReclaim}},
      "what happens to holders when a more important lease waits");
  add_span_option(verb, "--give-way-grace", policy.give_way_grace, "from asking a holder to the end of its lease");
  add_span_option(verb, "--min-runtime", policy.min_runtime, "that a lease has before it is asked to give way");
  auto& idle = policy.idle;
  verb.add_flag("--reclaim-idle", idle.on, "end leases that are not used, after a warning and a signal");
  add_span_option(verb, "--idle-window", idle.window, "over which use is averaged");
  verb.add_option("--idle-utilisation", idle.utilisation, "per cent; a GPU below is idle")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  add_span_option(verb, "--no-process-window", idle.no_process_window, "without any process, a lease is idle");
  verb.add_flag("--cpu-counts", idle.cpu_counts, "processes that keep a CPU busy keep their lease");
  add_span_option(verb, "--idle-warn-grace", idle.warn_grace, "from the warning to the signal");
  add_span_option(verb, "--idle-signal-grace", idle.signal_grace, "from the signal to the end");
}

}  // namespace

void add_serve(CLI::App& app, int& code) {
  const auto options = std::make_shared<ServeOptions>();
  options->state = data_folder();
  CLI::App* const verb = app.add_subcommand("serve", "keep a pool: leases, queue, audit log");
  verb->add_option("--state", options->state, "folder of its database")
      ->type_name("DIR")
      ->default_str("~/.local/share/xoe/pool");
  verb->add_option("--listen", options->server.address, "address; other hosts need TLS")
      ->type_name("ADDRESS")
      ->capture_default_str();
  verb->add_option("--port", options->server.port, "0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  verb->add_option("--tls-cert", options->server.certificate, "certificate, in PEM form")->type_name("FILE");
  verb->add_option("--tls-key", options->server.private_key, "its private key")->type_name("FILE");
  add_policy_options(*verb, options->policy);
  verb->callback([options, &code] { code = serve(*options); });
}

}  // namespace xoe::tools::pool
