#include "pool/server/handlers.h"

#include <regex>
#include <utility>

#include "core/base/error.h"
#include "core/base/random_token.h"
#include "core/base/text.h"
#include "pool/core/drift.h"
#include "pool/core/targets.h"
#include "pool/server/answers.h"
#include "pool/server/openapi.h"
#include "pool/server/wire.h"
#include "pool/state/token.h"

namespace xoe::pool {
namespace {

constexpr Span kLongestWait = std::chrono::seconds(30);
constexpr Span kShortWait = std::chrono::milliseconds(100);
constexpr Span kWaitSlice = std::chrono::seconds(1);  // whether the server ends, while a request waits
constexpr std::chrono::seconds kStreamPause(10);      // before a client that got no stream asks again
constexpr std::size_t kMostLongAnswers = 16;  // long answers that are being made, or wait for another to be made
constexpr std::int64_t kMaxEvents = 1000;
constexpr std::int64_t kMaxNumber = 1'000'000'000'000'000;
constexpr std::int64_t kMaxDays = 366;

// "/v1/leases/{id}" as a pattern; the id becomes matches[1].
std::string pattern_of(const std::string& path) {
  static constexpr std::string_view kId = "{id}";
  const auto at = path.find(kId);
  return at == std::string::npos ? path : path.substr(0, at) + R"((\d{1,15}))" + path.substr(at + kId.size());
}

std::int64_t id_of(const httplib::Request& request) { return std::stoll(request.matches[1]); }

}  // namespace

Handlers::Handlers(CommandQueue& queue, StoreReader reader, CommandQueue::Clock clock, const HandlerLimits& limits,
                   ServerCounters& counters)
    : queue_(queue),
      reader_(std::move(reader)),
      clock_(clock),
      counters_(counters),
      streams_(queue, std::move(clock), limits.streams),
      waits_(limits.waits),
      long_answers_(kMostLongAnswers),
      new_leases_(limits.leases, limits.leases_at_once) {}

bool Handlers::knows(const std::string& token) {
  bool known = false;
  queue_.read([&](Pool& pool) { known = user_with_token(pool.state(), token) != nullptr; });
  return known;
}

void Handlers::add(httplib::Server& server, const char* method, const std::string& path, Handler handler) {
  routes_.push_back({.method = method, .path = path});
  const std::string pattern = pattern_of(path);
  patterns_.emplace_back(pattern);
  if (routes_.back().method == "GET")
    server.Get(pattern, std::move(handler));
  else
    server.Post(pattern, std::move(handler));
}

void Handlers::add_to(httplib::Server& server) {
  const auto get = [&](const char* path, void (Handlers::*handler)(const Request&, Response&)) {
    add(server, "GET", path, [this, handler](const Request& q, Response& a) { (this->*handler)(q, a); });
  };
  const auto post = [&](const char* path, void (Handlers::*handler)(const Request&, Response&)) {
    add(server, "POST", path, [this, handler](const Request& q, Response& a) { (this->*handler)(q, a); });
  };
  add(server, "POST", "/v1/leases", [this](const Request& q, Response& a) { acquire(q, a, false); });
  add(server, "POST", "/v1/leases/adopt", [this](const Request& q, Response& a) { acquire(q, a, true); });
  post("/v1/leases/{id}/renew", &Handlers::renew);
  post("/v1/leases/{id}/release", &Handlers::release);
  post("/v1/leases/{id}/revoke", &Handlers::revoke);
  post("/v1/leases/{id}/exempt", &Handlers::exempt);
  get("/v1/leases", &Handlers::show_leases);
  get("/v1/leases/{id}", &Handlers::show_lease);
  add(server, "GET", "/v1/status", [this](const Request& q, Response& a) {
    read(q, a, Needs::kUser, [this](Pool& pool, const User&) -> Result<Json> { return status_json(pool, clock_()); });
  });
  add(server, "GET", "/v1/me", [this](const Request& q, Response& a) {
    read(q, a, Needs::kUser, [](Pool& pool, const User& user) -> Result<Json> {
      return describe::to_json(wire::Me{.user = user, .longest = pool.state().policy.max_duration});
    });
  });
  get("/v1/events", &Handlers::events);
  get("/v1/events/stream", &Handlers::stream);
  get("/v1/usage", &Handlers::usage);
  get("/metrics", &Handlers::metrics);
  post("/v1/report", &Handlers::report);
  post("/v1/teams", &Handlers::set_team);
  post("/v1/users", &Handlers::set_user);
  post("/v1/users/remove", &Handlers::remove_user);
  post("/v1/hosts/forget", &Handlers::forget_host);
  post("/v1/backup", &Handlers::backup);
  add(server, "GET", "/v1/openapi.json",
      [](const Request&, Response& a) { a.set_content(openapi_document(), "application/json"); });
}

std::vector<std::string> Handlers::methods_of(const std::string& path) const {
  std::vector<std::string> methods;
  for (std::size_t i = 0; i < routes_.size(); ++i)
    if (std::regex_match(path, patterns_[i])) methods.push_back(routes_[i].method);
  return methods;
}

void Handlers::end() {
  ending_ = true;
  streams_.end();
}

bool Handlers::may(Role role, Needs needs) {
  switch (needs) {
    case Needs::kAgent: return role == Role::kAgent || role == Role::kAdmin;
    case Needs::kUser: return role != Role::kAgent;
    case Needs::kLead: return role == Role::kLead || role == Role::kAdmin;
    case Needs::kAdmin: return role == Role::kAdmin;
  }
  return false;
}

// The user whom the request's token names; an answer was given where there is none.
std::optional<User> Handlers::allow(const Pool& pool, const Request& request, Response& response, Needs needs) {
  const User* const user = user_with_token(pool.state(), bearer_token(request));
  return allow(user, response, needs) ? std::optional(*user) : std::nullopt;
}

bool Handlers::allow(const User* user, Response& response, Needs needs) {
  if (user == nullptr) {
    refuse(response, 401,
           Error(Code::kInvalidArgument, "no user has this token; it goes into the header Authorization"));
    return false;
  }
  if (may(user->role, needs)) return true;
  refuse(response, 403,
         Error(Code::kInvalidArgument,
               fmt::format("{} has the role {}, which may not do this", user->name, name_of(user->role))));
  return false;
}

void Handlers::give(Response& response, const Result<Json>& json) {
  if (json)
    answer(response, 200, *json);
  else
    refuse(response, json.error());
}

void Handlers::read(const Request& request, Response& response, Needs needs, const Reply& reply) {
  queue_.read([&](Pool& pool) {
    if (const auto user = allow(pool, request, response, needs)) give(response, reply(pool, *user));
  });
}

void Handlers::change(const Request& request, Response& response, Needs needs, const Command& command,
                      const Reply& reply) {
  std::optional<User> user;
  Status done;
  const Status turn = queue_.change(
      [&](Pool& pool) {
        user = allow(pool, request, response, needs);
        if (user) done = command(pool, *user);
      },
      [&](Pool& pool) {
        if (!user) return;
        if (done)
          give(response, reply(pool, *user));
        else
          refuse(response, done.error());
      });
  if (!turn) refuse(response, 503, turn.error());
}

void Handlers::read_aside(const Request& request, Response& response, Needs needs,
                          const std::function<Result<Json>(StoreReader&)>& reply) {
  const WaitLimit::Place place = long_answers_.take(bearer_token(request));
  if (!place.taken())
    return refuse_for_now(response, std::chrono::seconds(1),
                          Error(Code::kResourceExhausted, "too many such requests at once: wait"));
  const auto user = reader_.user_with_token(bearer_token(request));
  if (!user) return refuse(response, 503, user.error());
  if (allow(*user ? &**user : nullptr, response, needs)) give(response, reply(reader_));
}

// The JSON object in the body; an answer was given where there is none.
std::optional<Json> Handlers::body_of(const Request& request, Response& response) {
  auto json = parse_object(request.body.empty() ? "{}" : request.body);
  if (json) return std::move(*json);
  refuse(response, json.error());
  return std::nullopt;
}

template <class Form>
std::optional<Form> Handlers::form_of(const Request& request, Response& response) {
  const auto body = body_of(request, response);
  if (!body) return std::nullopt;
  Form form;
  if (const Status read = describe::from_json(*body, form); !read) {
    refuse(response, read.error());
    return std::nullopt;
  }
  return form;
}

void Handlers::acquire(const Request& request, Response& response, bool adopt) {
  const auto form = form_of<wire::Request>(request, response);
  if (!form) return;
  const Error too_many(Code::kResourceExhausted, "too many leases were asked for in a second: wait");
  bool refused = false;
  std::int64_t id = 0;
  change(
      request, response, Needs::kUser,
      [&](Pool& pool, const User& user) -> Status {
        // Each is in the database and the audit log for ever, whatever becomes of it.
        const auto now = std::chrono::steady_clock::now();
        const std::int64_t next = pool.state().next_lease;
        refused = !new_leases_.would_take(user.name, now);
        if (refused) return failure(too_many);
        XOE_ASSIGN(
            id, adopt ? pool.adopt(user, form->request, form->token) : pool.acquire(user, form->request, form->token));
        if (id >= next) new_leases_.take(user.name, now);
        return {};
      },
      [&](Pool& pool, const User&) -> Result<Json> {
        XOE_ASSIGN(const Lease lease, pool.lease(id));
        return Json{{"lease", json_of(lease, pool.state())}};
      });
  if (refused) refuse_for_now(response, std::chrono::seconds(1), too_many);
}

// ?ids=3,4: of the user that asks.
void Handlers::show_leases(const Request& request, Response& response) {
  const auto ids = split_text(request.get_param_value("ids"), ',');
  std::vector<std::int64_t> unclaimed;
  const Reply reply = [&](Pool& pool, const User& user) -> Result<Json> {
    if (ids.size() > kMaxGpus) return failure(Code::kInvalidArgument, "ids: {} are more than {}", ids.size(), kMaxGpus);
    Json list = Json::array();
    for (const std::string& text : ids) {
      const auto id = parse_integer(text);
      if (!id) return failure(Code::kInvalidArgument, "ids: expected the numbers of leases such as 3,4");
      XOE_ASSIGN(const Lease lease, pool.lease(*id));
      if (lease.user != user.name) return failure(Code::kInvalidArgument, "lease {} is not one of {}", *id, user.name);
      if (lease.is_waiting()) pool.touch(*id, clock_());
      if (lease.is_open() && lease.unclaimed) unclaimed.push_back(*id);
      list.push_back(json_of(lease, pool.state()));
    }
    return Json{{"leases", std::move(list)}};
  };
  read(request, response, Needs::kUser, reply);
  if (!unclaimed.empty()) claim(request, response, std::exchange(unclaimed, {}), reply);
}

// The answer of a request that began after its leases were granted is that of their claim, which is kept first.
void Handlers::claim(const Request& request, Response& response, const std::vector<std::int64_t>& ids,
                     const Reply& reply) {
  change(
      request, response, Needs::kUser,
      [&](Pool& pool, const User& user) -> Status {
        for (const std::int64_t id : ids) XOE_TRY(pool.claim(user, id));
        return {};
      },
      reply);
}

// With ?wait=SECONDS, after it has left the queue or that time.
void Handlers::show_lease(const Request& request, Response& response) {
  const std::int64_t id = id_of(request);
  const auto seconds = query_number(request, "wait", 0, 0, 100);
  if (!seconds) return refuse(response, seconds.error());
  // Each wait takes a thread of the server: beyond its share, a client asks more often instead.
  const WaitLimit::Place place = waits_.take(bearer_token(request));
  const Span longest = place.taken() ? kLongestWait : kShortWait;
  const auto end = std::chrono::steady_clock::now() + std::min(longest, Span(std::chrono::seconds(*seconds)));
  bool waits = false;
  bool unclaimed = false;
  const Reply reply = [&](Pool& pool, const User& user) -> Result<Json> {
    XOE_ASSIGN(const Lease lease, pool.lease(id));
    if (lease.is_waiting() && lease.user == user.name) pool.touch(id, clock_());
    if (lease.user != user.name && user.role < Role::kLead)
      return failure(Code::kInvalidArgument, "lease {} is not one of {}", id, user.name);
    waits = lease.is_waiting();
    unclaimed = lease.is_open() && lease.unclaimed && lease.user == user.name;
    return Json{{"lease", json_of(lease, pool.state())}};
  };
  for (bool waited = false;; waited = true) {
    waits = unclaimed = false;
    const std::uint64_t seen = queue_.turn();
    read(request, response, Needs::kUser, reply);
    // One that waited for the grant may have lost its client meanwhile.
    if (unclaimed && !waited) return claim(request, response, {id}, reply);
    if (!waits) return;
    for (bool turned = false; !turned;) {
      const auto left = std::chrono::floor<Span>(end - std::chrono::steady_clock::now());
      if (left <= Span(0) || ending_) return;
      turned = queue_.await_turn(seen, std::min(left, kWaitSlice));
    }
  }
}

void Handlers::change_lease(const Request& request, Response& response, Needs needs,
                            const std::function<Status(Pool&, const User&, std::int64_t id)>& command) {
  const std::int64_t id = id_of(request);
  change(
      request, response, needs, [&](Pool& pool, const User& user) { return command(pool, user, id); },
      [&](Pool& pool, const User&) -> Result<Json> {
        XOE_ASSIGN(const Lease lease, pool.lease(id));
        return Json{{"lease", json_of(lease, pool.state())}};
      });
}

void Handlers::renew(const Request& request, Response& response) {
  const auto form = form_of<wire::Renewal>(request, response);
  if (!form) return;
  change_lease(request, response, Needs::kUser, [&](Pool& pool, const User& user, std::int64_t id) {
    return pool.renew(user, id, form->token.value_or(""), form->duration);
  });
}

void Handlers::release(const Request& request, Response& response) {
  const auto form = form_of<wire::Release>(request, response);
  if (!form) return;
  change_lease(request, response, Needs::kUser, [&](Pool& pool, const User& user, std::int64_t id) {
    return pool.release(user, id, form->token.value_or(""), "released");
  });
}

void Handlers::revoke(const Request& request, Response& response) {
  const auto form = form_of<wire::Reason>(request, response);
  if (!form) return;
  change_lease(request, response, Needs::kLead,
               [&](Pool& pool, const User& user, std::int64_t id) { return pool.revoke(user, id, form->why); });
}

void Handlers::exempt(const Request& request, Response& response) {
  const auto form = form_of<wire::Reason>(request, response);
  if (!form) return;
  change_lease(request, response, Needs::kLead,
               [&](Pool& pool, const User& user, std::int64_t id) { return pool.exempt(user, id, form->why); });
}

// Server-sent events, as docs/reference/pool-http.md has them.
void Handlers::stream(const Request& request, Response& response) {
  std::optional<std::int64_t> after;
  if (const std::string last = request.get_header_value("Last-Event-ID"); !last.empty()) {
    after = parse_integer(last);
    if (!after || *after < 0)
      return refuse(response, Error(Code::kInvalidArgument, "Last-Event-ID: not the number of an event"));
  }
  std::optional<User> user;
  queue_.read([&](Pool& pool) { user = allow(pool, request, response, Needs::kUser); });
  if (!user) return;
  const auto opened = streams_.open(*user, bearer_token(request), after);
  if (!opened) return refuse_for_now(response, kStreamPause, opened.error());
  response.set_header("X-Accel-Buffering", "no");  // a proxy shall pass each event on at once
  response.set_chunked_content_provider(
      "text/event-stream",
      [stream = *opened](std::size_t, httplib::DataSink& sink) {
        const EventStream::Message message = stream->next();
        const bool sent = sink.write(message.text.data(), message.text.size());
        if (message.last) sink.done();
        return sent;
      },
      [this](bool complete) {
        if (!complete) ++counters_.streams_dropped;
      });
}

void Handlers::metrics(const Request& request, Response& response) {
  queue_.read([&](Pool& pool) {
    if (!allow(pool, request, response, Needs::kUser)) return;
    response.set_content(metrics_text(pool, counters_, {.turns = queue_.turn(), .streams = streams_.count()}, clock_()),
                         "text/plain; version=0.0.4; charset=utf-8");
  });
}

// With ?after=NUMBER the lines above it, with ?last=COUNT the newest ones; the oldest first.
void Handlers::events(const Request& request, Response& response) {
  const auto after = query_number(request, "after", 0, 0, kMaxNumber);
  const auto last = query_number(request, "last", 0, 0, kMaxEvents);
  if (!after || !last) return refuse(response, after ? last.error() : after.error());
  read(request, response, Needs::kLead, [&](Pool& pool, const User&) -> Result<Json> {
    XOE_ASSIGN(const std::int64_t newest, pool.store().last_event());
    XOE_ASSIGN(const auto events,
               pool.store().events(*last == 0 ? *after : std::max(*after, newest - *last), kMaxEvents));
    Json list = Json::array();
    for (const Event& event : events) list.push_back(json_of(event));
    return Json{{"events", std::move(list)}};
  });
}

void Handlers::usage(const Request& request, Response& response) {
  const auto days = query_number(request, "days", 7, 1, kMaxDays);
  if (!days) return refuse(response, days.error());
  read_aside(request, response, Needs::kUser, [&](StoreReader& reader) -> Result<Json> {
    const Time now = clock_();
    XOE_ASSIGN(const auto rows, reader.usage(hour_of(now) - std::chrono::days(*days), now, now));
    Json list = Json::array();
    for (const UsageRow& row : rows) list.push_back(json_of(row));
    return Json{{"usage", std::move(list)}};
  });
}

void Handlers::report(const Request& request, Response& response) {
  const auto body = body_of(request, response);
  if (!body) return;
  const auto told = report_of(*body);
  if (!told) return refuse(response, told.error());
  change(
      request, response, Needs::kAgent,
      [&](Pool& pool, const User& user) {
        return pool.report(*told, user.role == Role::kAgent ? std::string_view(user.name) : std::string_view());
      },
      [&](Pool& pool, const User&) -> Result<Json> {
        wire::Orders orders{.end = processes_to_end(pool.state(), told->host),
                            .holders = holders_on(pool.state(), told->host),
                            .leases = cluster_leases(pool.state(), told->host, clock_())};
        XOE_ASSIGN(orders.vms, vm_assignments(pool.state(), pool.store(), told->host));
        return describe::to_json(orders);
      });
}

void Handlers::set_team(const Request& request, Response& response) {
  const auto body = body_of(request, response);
  if (!body) return;
  Team form;
  if (const Status read = describe::from_json(*body, form); !read) return refuse(response, read.error());
  change(
      request, response, Needs::kAdmin,
      [&](Pool& pool, const User& user) -> Status {
        const auto known = pool.state().teams.find(form.name);
        Team team = known == pool.state().teams.end() ? Team() : known->second;
        XOE_TRY(describe::from_json(*body, team));  // what is not told stays
        return pool.set_team(user, team);
      },
      [](Pool&, const User&) -> Result<Json> { return Json::object(); });
}

// A user that exists keeps its token, unless {"new_token": true}, and the fields that are not told. With a token of the
// client's choice the request may be sent twice.
void Handlers::set_user(const Request& request, Response& response) {
  const auto body = body_of(request, response);
  if (!body) return;
  wire::UserForm form;
  if (const Status read = describe::from_json(*body, form); !read) return refuse(response, read.error());
  const Result<std::string> token = form.token ? Result<std::string>(*form.token) : random_token();
  if (!token) return refuse(response, token.error());
  bool made = false;
  change(
      request, response, Needs::kAdmin,
      [&](Pool& pool, const User& user) -> Status {
        XOE_TRY(check_token(*token));
        const auto known = pool.state().users.find(form.user.name);
        const bool is_new = known == pool.state().users.end();
        wire::UserForm wanted{.user = is_new ? User() : known->second};
        XOE_TRY(describe::from_json(*body, wanted));
        if (wanted.user.name == user.name && wanted.user.role != user.role)
          return failure(Code::kInvalidArgument, "{} cannot change its own role: another admin can", user.name);
        const std::string hash = hash_of_token(*token);
        made = wanted.new_token || is_new || wanted.user.token_hash == hash;
        if (made) wanted.user.token_hash = hash;
        return pool.set_user(user, wanted.user);
      },
      [&](Pool&, const User&) -> Result<Json> {
        return made ? Json{{"token", *token}} : Json::object();
      });
}

void Handlers::remove_user(const Request& request, Response& response) {
  const auto form = form_of<wire::Name>(request, response);
  if (!form) return;
  change(
      request, response, Needs::kAdmin,
      [&](Pool& pool, const User& user) -> Status {
        if (form->name == user.name) return failure(Code::kInvalidArgument, "{} cannot remove itself", form->name);
        return pool.remove_user(user, form->name);
      },
      [](Pool&, const User&) -> Result<Json> { return Json::object(); });
}

void Handlers::forget_host(const Request& request, Response& response) {
  const auto form = form_of<wire::Name>(request, response);
  if (!form) return;
  change(
      request, response, Needs::kAdmin,
      [&](Pool& pool, const User& user) -> Status { return pool.forget_host(user, form->name); },
      [](Pool&, const User&) -> Result<Json> { return Json::object(); });
}

void Handlers::backup(const Request& request, Response& response) {
  const auto form = form_of<wire::Path>(request, response);
  if (!form) return;
  read_aside(request, response, Needs::kAdmin, [&](StoreReader& reader) -> Result<Json> {
    const std::string& path = form->path;
    if (!path.starts_with('/')) return failure(Code::kInvalidArgument, "path: {} does not begin with /", path);
    XOE_TRY(reader.backup_to(path));
    return Json{{"path", path}};
  });
}

}  // namespace xoe::pool
