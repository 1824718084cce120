// xoe pool serve: the server, and its token on the first start.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/make_folder.h"
#include "core/base/output_file.h"
#include "core/base/random_token.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "core/command_line/parse/command_line.h"
#include "pool/cli/held_signals.h"
#include "pool/cli/verbs.h"
#include "pool/core/command_queue.h"
#include "pool/core/names.h"
#include "pool/core/wall_clock.h"
#include "pool/hooks/mail.h"
#include "pool/hooks/notifier.h"
#include "pool/inventory/inventory.h"
#include "pool/server/http_server.h"
#include "pool/server/page.h"
#include "pool/server/webhook.h"
#include "pool/state/token.h"

namespace xoe::tools::pool {
namespace {

using xoe::pool::CommandQueue;
using xoe::pool::GiveWayPolicy;
using xoe::pool::HttpServer;
using xoe::pool::Notice;
using xoe::pool::NoticeCounters;
using xoe::pool::Notifier;
using xoe::pool::Pool;
using xoe::pool::Store;
using xoe::pool::WallClock;

struct ServeOptions {
  std::string state = {};
  xoe::pool::ServerOptions server = {.port = kDefaultPort, .page = xoe::pool::web_page()};
  xoe::pool::Policy policy = {};
  std::vector<std::string> webhooks = {};
  std::string webhook_secret = {};  // a file
  std::string mail_command = {};
  std::string mail_domain = {};
};

// A pool without users gets its first one: the user who starts it.
Status add_first_user(Pool& pool, const std::string& state, xoe::pool::Time now) {
  if (!pool.state().users.empty()) return {};
  XOE_ASSIGN(const std::string token, random_token());
  std::string path = default_token_file();
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (error)
    return failure(Code::kUnavailable, "cannot look for {}, the place of the first user's token: {}", path,
                   error.message());
  if (exists) path = state + "/admin-token";
  if (!make_folder_of(path))
    return failure(Code::kUnavailable, "cannot make the folder of {}: {}", path, errno_text(errno));
  XOE_TRY(pool.begin(now));
  const std::string name = xoe::pool::name_like(xoe::pool::user_of_process(::getpid()), xoe::pool::kLongestUserName);
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

// Also of a container that was started again.
std::string start_of_this_machine() {
  const std::string identity = xoe::machine_identity();
  return std::string(xoe::start_of_machine(identity));
}

// The clock may have been set since a server ran here before: the pool then learns of it as of a jump.
Status start_clock(std::optional<WallClock>& clock, Store& store) {
  XOE_ASSIGN(const auto mark, store.clock_mark());
  const bool is_here = mark && !mark->machine.empty() && mark->machine == start_of_this_machine();
  clock.emplace(WallClock::machine, is_here ? std::optional(mark->offset) : std::nullopt);
  return {};
}

Result<std::unique_ptr<CommandQueue>> open_queue(const ServeOptions& options, std::optional<WallClock>& clock) {
  const std::string file = options.state + "/pool.db";
  if (!make_folder_of(file)) return failure(Code::kUnavailable, "cannot make {}: {}", options.state, errno_text(errno));
  XOE_ASSIGN(Store store, Store::open(file));
  XOE_TRY(start_clock(clock, store));
  XOE_ASSIGN(Pool pool, Pool::open(std::move(store), options.policy));
  XOE_TRY(add_first_user(pool, options.state, clock->now()));
  const auto mark = [&clock, machine = start_of_this_machine()]() -> std::optional<xoe::pool::ClockMark> {
    const auto offset = clock->offset();
    if (!offset) return std::nullopt;
    return xoe::pool::ClockMark{machine, *offset};
  };
  return std::make_unique<CommandQueue>(
      std::move(pool), [&clock] { return clock->now(); }, [&clock] { return clock->news(); }, mark);
}

using Notifiers = std::vector<std::unique_ptr<Notifier>>;

Result<Notifiers> start_notifiers(const ServeOptions& options, CommandQueue& queue, NoticeCounters& counters) {
  Notifiers notifiers;
  const auto add = [&](Notifier::Send send) {
    const auto say = [](const std::string& what) { fmt::print(stderr, "xoe pool serve: {}\n", what); };
    notifiers.push_back(std::make_unique<Notifier>(queue, std::move(send), say, counters));
  };
  std::string secret;
  if (!options.webhook_secret.empty()) {
    XOE_ASSIGN(const std::string text, read_text_file(options.webhook_secret));
    secret = trimmed(text);
    if (secret.empty())
      return failure(Code::kInvalidArgument, "{} is empty: it must have a secret", options.webhook_secret);
  }
  for (const std::string& url : options.webhooks) {
    XOE_ASSIGN(auto made, xoe::pool::Webhook::create(url, secret));
    add([webhook = std::make_shared<xoe::pool::Webhook>(std::move(made))](const Notice& notice) {
      return webhook->post(notice);
    });
  }
  if (!options.mail_command.empty())
    add([command = options.mail_command, domain = options.mail_domain](const Notice& notice) {
      return xoe::pool::send_mail(command, domain, notice);
    });
  return notifiers;
}

// Each connection is a file, and the usual 1024 are soon full.
void allow_many_files() {
  constexpr rlim_t kEnough = 16384;
  rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = std::max(files.rlim_cur, std::min(files.rlim_max, kEnough));
  ::setrlimit(RLIMIT_NOFILE, &files);
}

int serve(ServeOptions options) {
  allow_many_files();
  const HeldSignals held;  // also of the threads that start from here on
  NoticeCounters counters;
  options.server.notices = &counters;
  if (const Status allowed = xoe::pool::check_server_options(options.server); !allowed) return fail(allowed.error());
  std::optional<WallClock> clock;
  const auto queue = open_queue(options, clock);
  if (!queue) return fail(queue.error());
  const auto notifiers = start_notifiers(options, **queue, counters);
  if (!notifiers) return fail(notifiers.error());
  const auto server = HttpServer::start(
      **queue, [&clock] { return clock->now(); }, options.server);
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
  add_number(verb, "--max-waiting", policy.max_waiting, 1, 10000, "leases of one user in the queue");
  add_span_option(verb, "--waiting-timeout", policy.waiting_timeout,
                  "a client that is silent for longer leaves the queue, or loses the lease that it waited for");
  add_choice<GiveWayPolicy>(
      verb, "--give-way", policy.give_way,
      {{"off", GiveWayPolicy::kOff}, {"ask", GiveWayPolicy::kAsk}, {"reclaim", GiveWayPolicy::kReclaim}},
      "what happens to holders when a more important lease waits");
  add_span_option(verb, "--give-way-grace", policy.give_way_grace, "from asking a holder to the end of its lease");
  add_span_option(verb, "--min-runtime", policy.min_runtime, "that a lease has before it is asked to give way");
  auto& idle = policy.idle;
  verb.add_flag("--reclaim-idle", idle.on, "end leases that are not used, after a warning and a signal");
  add_span_option(verb, "--idle-window", idle.window, "over which use is averaged");
  add_number(verb, "--idle-utilisation", idle.utilisation, 0.0, 100.0, "per cent; a GPU below is idle");
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
  add_setting(*verb, "--listen", options->server.address, "address; other hosts need TLS")->type_name("ADDRESS");
  add_number(*verb, "--port", options->server.port, 0, 65535, "0: any that is free");
  verb->add_option("--tls-cert", options->server.certificate, "certificate, in PEM form")->type_name("FILE");
  verb->add_option("--tls-key", options->server.private_key, "its private key")->type_name("FILE");
  verb->add_option("--webhook", options->webhooks,
                   "tell this address of leases that begin, end, or have to: JSON by POST")
      ->type_name("URL")
      ->allow_extra_args(false);
  verb->add_option("--webhook-secret", options->webhook_secret, "file with a secret that signs what is sent")
      ->type_name("FILE");
  verb->add_option("--mail-command", options->mail_command, "mail the same to the users: sendmail -t")
      ->type_name("COMMAND");
  verb->add_option("--mail-domain", options->mail_domain, "their addresses are USER@DOMAIN; else USER")
      ->type_name("DOMAIN");
  add_number(*verb, "--max-rate", options->server.rate, 0, 1000000, "requests of one token in a second; 0: any number");
  add_policy_options(*verb, options->policy);
  verb->callback([options, &code] { code = serve(*options); });
}

}  // namespace xoe::tools::pool
