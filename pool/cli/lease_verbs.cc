// xoe pool acquire, adopt, renew, release, revoke, exempt.
#include <fmt/chrono.h>

#include <thread>

#include "core/base/error.h"
#include "core/base/random_token.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "pool/cli/field_options.h"
#include "pool/cli/held_signals.h"
#include "pool/cli/point_in_time.h"
#include "pool/cli/verbs.h"
#include "pool/hooks/notice.h"
#include "pool/model/fields.h"

namespace xoe::tools::pool {
namespace {

struct LeaseVerb {
  Connection connection = {};
  LeaseOptions lease = {};
  std::int64_t id = 0;
  std::string token = {};
  std::string why = {};
  Span duration = std::chrono::hours(4);
};

std::string describe(const Json& lease) {
  const auto id = id_of(lease);
  const std::string gpus = counted(lease.at("count").get<int>(), "GPU");
  const std::string state = lease.at("state");
  if (state == "open") {
    const auto hosts = lease.value("hosts", std::vector<std::string>());
    const std::string vm = lease.value("vm", "");
    return fmt::format("lease {}: {}{}{}{}{}", id, gpus, hosts.empty() ? "" : " on ", fmt::join(hosts, ", "),
                       vm.empty() ? "" : " for VM " + vm, end_text(lease));
  }
  const std::string why = lease.value("why", "");
  if (state == "ended") return xoe::pool::ended_sentence(fmt::format("lease {}", id), why);
  const Json* const position = member_of(lease, "position");
  const Json* const starts = member_of(lease, "starts");
  return fmt::format("lease {}: {}, {} in the queue, starts {}: {}", id, gpus,
                     position == nullptr ? "it is" : "place " + position->dump(),
                     starts == nullptr ? "at a time that is not known" : "at " + local_time(*starts), why);
}

// The lease goes to stderr, and to stdout what a shell can read: eval "$(xoe pool acquire)".
int show(const Connection& connection, const Json& lease, bool variables) {
  if (connection.json) return print(xoe::pool::to_text(lease) + "\n");
  fmt::print(stderr, "{}\n", xoe::printable_utf8(describe(lease)));
  if (!variables || lease.at("state") != "open") return 0;
  std::string more;
  if (lease.contains("job")) more = fmt::format(" SLURM_JOB_ID={}", lease.at("job").get<std::int64_t>());
  if (!lease.contains("slurm") && !lease.contains("vm"))
    more = fmt::format(" {}={}", visible_variable(lease), visible_devices(lease));
  return print(fmt::format("export XOE_POOL_LEASE={}{}\n", id_of(lease), more));
}

// Asks for an open lease until an agent has done its part. False: it takes too long.
template <class IsDone>
bool await_agent(Client& client, Reply& reply, Span pause, IsDone&& is_done) {
  constexpr Span kTimeout = std::chrono::seconds(30);
  for (Span waited(0); waited < kTimeout; waited += pause) {
    const Json& lease = reply.body.at("lease");
    if (lease.at("state") != "open" || is_done(lease) || HeldSignals::any()) return true;
    std::this_thread::sleep_for(pause);
    auto next = client.get(fmt::format("/v1/leases/{}", id_of(lease)));
    if (next && next->ok()) reply = std::move(*next);
  }
  return false;
}

// The cluster's agent makes the allocation when it next looks.
void await_job(Client& client, Reply& reply) {
  if (!await_agent(client, reply, std::chrono::milliseconds(500),
                   [](const Json& lease) { return !lease.contains("slurm") || lease.contains("job"); }))
    fmt::print(stderr, "xoe pool: Slurm has not allocated the GPUs yet; `xoe pool status` says why\n");
}

int acquire_or_adopt(const LeaseVerb& verb, const char* path) {
  const HeldSignals held;
  if (verb.lease.most_gpus > 0)
    return fail(Error(Code::kInvalidArgument, "--gpus MIN:MAX is for xoe run --pool; a lease has one number of GPUs"));
  auto client = connect(verb.connection);
  if (!client) return fail(client.error());
  auto reply = acquire(*client, verb.connection, verb.lease, path);
  if (!reply) return fail(reply.error());
  if (!reply->ok()) return fail(*reply);
  await_job(*client, *reply);
  await_devices(*client, *reply);
  const Json& lease = reply->body.at("lease");
  const int shown = show(verb.connection, lease, true);
  return lease.at("state") == "ended" ? kNoGpu : shown;
}

int change(const LeaseVerb& verb, const char* what, const Json& body) {
  auto client = connect(verb.connection);
  if (!client) return fail(client.error());
  const auto reply = client->post(fmt::format("/v1/leases/{}/{}", verb.id, what), body);
  if (!reply) return fail(reply.error());
  if (!reply->ok()) return fail(*reply);
  const Json& lease = reply->body.at("lease");
  if (lease.at("state") == "ended") forget_lease(verb.connection, verb.id);
  return show(verb.connection, lease, false);
}

int change_own(const LeaseVerb& verb, const char* what, Json body) {
  const auto token = verb.token.empty() ? lease_token(verb.connection, verb.id) : verb.token;
  if (!token) return fail(token.error());
  body["token"] = *token;
  return change(verb, what, body);
}

CLI::App* add_verb(CLI::App& app, const char* name, const char* what, const std::shared_ptr<LeaseVerb>& verb) {
  CLI::App* const sub = app.add_subcommand(name, what);
  add_connection_options(*sub, verb->connection);
  return sub;
}

void add_id(CLI::App& verb, std::int64_t& id) { verb.add_option("LEASE", id, "its number")->required(); }

void add_token(CLI::App& verb, std::string& token) {
  verb.add_option("--lease-token", token, "the lease's token, if it was acquired elsewhere")->type_name("TOKEN");
}

// "2", or "2:4" for at least and at most.
void set_count(LeaseOptions& options, const std::string& text) {
  constexpr std::int64_t kMost = 1024;
  const auto colon = text.find(':');
  const auto least = parse_integer(text.substr(0, colon));
  const auto most = colon == std::string::npos ? least : parse_integer(text.substr(colon + 1));
  if (!least || *least < 1 || *least > kMost || !most || *most < *least || *most > kMost)
    throw CLI::ValidationError(fmt::format("--gpus {}: expected a number from 1 to {}, or MIN:MAX", text, kMost),
                               CLI::ExitCodes::ValidationError);
  options.request["gpus"] = *least;
  options.most_gpus = colon == std::string::npos ? 0 : static_cast<int>(*most);
}

}  // namespace

std::string local_time(const Json& seconds) {
  const auto whole = static_cast<std::time_t>(seconds.get<double>());
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(whole));
}

std::string end_text(const Json& lease) {
  const Json* const expires = member_of(lease, "expires");
  return expires == nullptr ? std::string() : " until " + local_time(*expires);
}

std::string visible_devices(const Json& lease) {
  const std::vector<std::string> gpus = lease.at("gpus");
  return fmt::format("{}", fmt::join(gpus, ","));
}

const char* visible_variable(const Json& lease) {
  const std::vector<std::string> gpus = lease.at("gpus");
  constexpr std::size_t kLengthOfAmds = 20;  // "GPU-" and 16 digits
  const bool amd = !gpus.empty() && gpus[0].starts_with("GPU-") && gpus[0].size() == kLengthOfAmds &&
                   gpus[0].find('-', 4) == std::string::npos;
  return amd ? "ROCR_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
}

void add_lease_options(CLI::App& verb, LeaseOptions& options) {
  verb.add_option_function<std::string>(
          "--gpus", [&options](const std::string& text) { set_count(options, text); }, "how many, all or none")
      ->type_name("N")
      ->default_str("1");
  verb.add_option("--memory", options.memory,
                  "of each at least, such as 16G, as cards are sold: they have up to a tenth less")
      ->type_name("BYTES")
      ->check(
          [](const std::string& text) { return parse_bytes(text) ? std::string() : "expected a size such as 16G"; });
  add_span_option(verb, "--for", options.duration, "for how long");
  add_field_options<xoe::pool::LeaseRequest>(verb, options.request);
}

void add_place_options(CLI::App& verb, LeaseOptions& options) {
  add_field_options<xoe::pool::LeaseRequest>(verb, options.request, xoe::pool::kPlace);
  CLI::Option* const vm = verb.get_option("--vm");
  verb.get_option("--power-cycle")->needs(vm);
  verb.get_option("--slurm")->excludes(vm);
}

Result<Reply> request_lease(Client& client, const Connection& connection, const LeaseOptions& options,
                            const char* path) {
  std::string token = options.token;
  if (token.empty()) {
    XOE_ASSIGN(token, random_token());
  }
  Json body = options.request;
  body["token"] = token;
  body["seconds"] = std::chrono::duration<double>(options.duration).count();
  if (!options.memory.empty()) body["memory"] = *parse_bytes(options.memory);
  if (!options.at.empty()) {
    const auto at = parse_point_in_time(options.at);
    if (!at) return failure(at.error().code(), "--at: {}", at.error().message());
    body["at"] = std::chrono::duration<double>(at->time_since_epoch()).count();
  }
  XOE_ASSIGN(Reply reply, client.post(path, body));
  if (!reply.ok() || reply.body.at("lease").at("state") == "ended") return reply;
  XOE_TRY(remember_lease(connection, id_of(reply.body.at("lease")), token));
  forget_ended_leases(client, connection);
  return reply;
}

Result<Reply> acquire(Client& client, const Connection& connection, const LeaseOptions& options, const char* path,
                      const std::function<void(std::int64_t)>& holds) {
  XOE_ASSIGN(Reply reply, request_lease(client, connection, options, path));
  if (!reply.ok()) return reply;
  const auto id = id_of(reply.body.at("lease"));
  if (holds && reply.body.at("lease").at("state") != "ended") holds(id);
  std::string said;
  // An open lease that came from the queue is asked for once more, which tells the pool that its client is there.
  const auto is_waiting = [&] { return reply.body.at("lease").at("state") == "waiting"; };
  while (reply.ok() && (is_waiting() || reply.body.at("lease").value("unclaimed", false)) && options.at.empty()) {
    if (std::string now = describe(reply.body.at("lease")); is_waiting() && now != said)
      fmt::print(stderr, "{}\n", xoe::printable_utf8(said = std::move(now)));
    auto next = client.get(fmt::format("/v1/leases/{}?wait=1", id));
    if (next && next->ok() && !HeldSignals::any()) {
      reply = std::move(*next);
      continue;
    }
    const Status released = release(client, connection, id);
    const std::string outcome = released ? fmt::format("lease {} was given back", id) : released.error().message();
    if (HeldSignals::any()) return failure(Code::kInvalidArgument, "interrupted; {}", outcome);
    if (next) return next;
    return failure(next.error().code(), "{}; {}", next.error().message(), outcome);
  }
  return reply;
}

void await_devices(Client& client, Reply& reply) {
  if (!await_agent(client, reply, std::chrono::milliseconds(100),
                   [](const Json& lease) { return !lease.value("closed", false); }))
    fmt::print(stderr, "xoe pool: the GPUs' device files are still closed to you; `xoe pool status` says why\n");
}

Status release(Client& client, const Connection& connection, std::int64_t id) {
  constexpr int kNoSuchLease = 404;
  const auto token = lease_token(connection, id);
  if (!token) return {};
  const auto reply = client.post(fmt::format("/v1/leases/{}/release", id), {{"token", *token}});
  if (!reply) return failure(reply.error().code(), "lease {}: {}", id, reply.error().message());
  if (!reply->ok() && reply->status != kNoSuchLease)
    return failure(may_pass(*reply) ? Code::kUnavailable : Code::kInvalidArgument, "lease {}: {}", id,
                   reply->message());
  forget_lease(connection, id);
  return {};
}

void add_lease_verbs(CLI::App& app, int& code) {
  const auto acquired = std::make_shared<LeaseVerb>();
  CLI::App* const acquire = add_verb(app, "acquire", "take GPUs; prints what a shell needs to use them", acquired);
  add_lease_options(*acquire, acquired->lease);
  add_place_options(*acquire, acquired->lease);
  acquire->add_option("--at", acquired->lease.at, "reserve them from a time on: 2026-12-01T09:00, or with Z or +01:00")
      ->type_name("TIME");
  acquire->callback([acquired, &code] { code = acquire_or_adopt(*acquired, "/v1/leases"); });

  const auto adopted = std::make_shared<LeaseVerb>();
  CLI::App* const adopt = add_verb(app, "adopt", "a lease for GPUs that your processes use already", adopted);
  adopt
      ->add_option_function<std::vector<std::string>>(
          "UUID",
          [adopted](const std::vector<std::string>& uuids) {
            adopted->lease.request["exact"] = uuids;
            adopted->lease.request["gpus"] = uuids.size();
          },
          "the GPUs, as `xoe pool status` names them")
      ->required();
  add_span_option(*adopt, "--for", adopted->lease.duration, "for how long");
  add_member<std::string>(*adopt, adopted->lease.request, "--vm", "vm", "the virtual machine that has them (admins)")
      ->type_name("NAME");
  adopt->callback([adopted, &code] { code = acquire_or_adopt(*adopted, "/v1/leases/adopt"); });

  const auto renewed = std::make_shared<LeaseVerb>();
  CLI::App* const renew = add_verb(app, "renew", "keep a lease for longer", renewed);
  add_id(*renew, renewed->id);
  add_token(*renew, renewed->token);
  add_span_option(*renew, "--for", renewed->duration, "from now on");
  renew->callback([renewed, &code] {
    code = change_own(*renewed, "renew", {{"seconds", std::chrono::duration<double>(renewed->duration).count()}});
  });

  const auto released = std::make_shared<LeaseVerb>();
  CLI::App* const release = add_verb(app, "release", "give a lease back, or leave the queue", released);
  add_id(*release, released->id);
  add_token(*release, released->token);
  release->callback([released, &code] { code = change_own(*released, "release", Json::object()); });

  for (const auto& [name, what] : {std::pair("revoke", "end the lease of another (leads of its team, admins)"),
                                   {"exempt", "never reclaim a lease as idle (leads, admins)"}}) {
    const auto verb = std::make_shared<LeaseVerb>();
    CLI::App* const sub = add_verb(app, name, what, verb);
    add_id(*sub, verb->id);
    sub->add_option("--why", verb->why, "for its holder and the audit log")->type_name("TEXT")->required();
    sub->callback([verb, name = name, &code] { code = change(*verb, name, {{"why", verb->why}}); });
  }
}

}  // namespace xoe::tools::pool
