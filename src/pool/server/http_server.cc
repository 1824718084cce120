#include "pool/server/http_server.h"

#include <httplib.h>

#include <thread>

#include "base/error.h"
#include "base/random_token.h"
#include "base/text.h"
#include "pool/core/drift.h"
#include "pool/core/targets.h"
#include "pool/server/json.h"
#include "pool/state/token.h"

namespace xoe::pool {
namespace {

using httplib::Request;
using httplib::Response;

constexpr Span kLongestWait = std::chrono::seconds(30);
constexpr int kMaxEvents = 1000;

int http_status(Code code) {
  switch (code) {
    case Code::kInvalidArgument: return 400;
    case Code::kUnsupported: return 404;
    case Code::kResourceExhausted: return 409;
    case Code::kUnavailable: return 503;
    default: return 500;
  }
}

void answer(Response& response, int status, const Json& json) {
  response.status = status;
  response.set_content(to_text(json) + "\n", "application/json");
}

void refuse(Response& response, int status, const Error& error) {
  answer(response, status, {{"error", json_of(error)}});
}
void refuse(Response& response, const Error& error) { refuse(response, http_status(error.code()), error); }

std::string bearer_token(const Request& request) {
  const std::string header = request.get_header_value("Authorization");
  return header.starts_with("Bearer ") ? header.substr(7) : std::string();
}

enum class Needs { kAgent, kUser, kAdmin };

bool may(Role role, Needs needs) {
  switch (needs) {
    case Needs::kAgent: return role == Role::kAgent || role == Role::kAdmin;
    case Needs::kUser: return role != Role::kAgent;
    case Needs::kAdmin: return role == Role::kAdmin;
  }
  return false;
}

bool is_loopback(const std::string& address) {
  return address == "127.0.0.1" || address == "::1" || address == "localhost";
}

class Handlers {
 public:
  Handlers(CommandQueue& queue, CommandQueue::Clock clock) : queue_(queue), clock_(std::move(clock)) {}

  void add_to(httplib::Server& server) {
    server.Post("/v1/leases", [this](const Request& q, Response& a) { acquire(q, a, false); });
    server.Post("/v1/leases/adopt", [this](const Request& q, Response& a) { acquire(q, a, true); });
    server.Get(R"(/v1/leases/(\d{1,18}))", [this](const Request& q, Response& a) { show_lease(q, a); });
    server.Post(R"(/v1/leases/(\d{1,18})/(renew|release|revoke|exempt))",
                [this](const Request& q, Response& a) { change_lease(q, a); });
    server.Get("/v1/status", [this](const Request& q, Response& a) {
      read(q, a, Needs::kUser, [this](Pool& pool, const User&) -> Result<Json> { return status_json(pool, clock_()); });
    });
    server.Get("/v1/events", [this](const Request& q, Response& a) { events(q, a); });
    server.Get("/v1/usage", [this](const Request& q, Response& a) { usage(q, a); });
    server.Post("/v1/report", [this](const Request& q, Response& a) { report(q, a); });
    server.Post("/v1/teams", [this](const Request& q, Response& a) { set_team(q, a); });
    server.Post("/v1/users", [this](const Request& q, Response& a) { set_user(q, a); });
    server.Post("/v1/users/remove", [this](const Request& q, Response& a) { remove_user(q, a); });
    server.Post("/v1/backup", [this](const Request& q, Response& a) { backup(q, a); });
  }

 private:
  using Command = std::function<Status(Pool&, const User&)>;
  using Reply = std::function<Result<Json>(Pool&, const User&)>;

  // The user whom the request's token names; an answer was given where there is none.
  static std::optional<User> allow(const Pool& pool, const Request& request, Response& response, Needs needs) {
    const User* const user = user_with_token(pool.state(), bearer_token(request));
    if (user == nullptr) {
      refuse(response, 401,
             Error(Code::kInvalidArgument, "no user has this token; it goes into the header Authorization"));
      return std::nullopt;
    }
    if (!may(user->role, needs)) {
      refuse(response, 403,
             Error(Code::kInvalidArgument,
                   fmt::format("{} has the role {}, which may not do this", user->name, name_of(user->role))));
      return std::nullopt;
    }
    return *user;
  }

  static void give(Response& response, const Result<Json>& json) {
    if (json)
      answer(response, 200, *json);
    else
      refuse(response, json.error());
  }

  void read(const Request& request, Response& response, Needs needs, const Reply& reply) {
    queue_.read([&](Pool& pool) {
      if (const auto user = allow(pool, request, response, needs)) give(response, reply(pool, *user));
    });
  }

  void change(const Request& request, Response& response, Needs needs, const Command& command, const Reply& reply) {
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

  // The object in the body; an answer was given where there is none.
  static std::optional<Json> body_of(const Request& request, Response& response) {
    auto json = parse_object(request.body.empty() ? "{}" : request.body);
    if (json) return std::move(*json);
    refuse(response, json.error());
    return std::nullopt;
  }

  void acquire(const Request& request, Response& response, bool adopt) {
    const auto body = body_of(request, response);
    if (!body) return;
    const auto token = text_field(*body, "token");
    const auto ask = ask_of(*body);
    if (!token || !ask) return refuse(response, token ? ask.error() : token.error());
    std::int64_t id = 0;
    change(
        request, response, Needs::kUser,
        [&](Pool& pool, const User& user) -> Status {
          XOE_ASSIGN(id, adopt ? pool.adopt(user, *ask, *token) : pool.acquire(user, *ask, *token));
          return {};
        },
        [&](Pool& pool, const User&) -> Result<Json> {
          XOE_ASSIGN(const Lease lease, pool.lease(id));
          return Json{{"lease", json_of(lease, pool.state())}};
        });
  }

  // With ?wait=SECONDS, after it has left the queue or that time.
  void show_lease(const Request& request, Response& response) {
    const std::int64_t id = std::stoll(request.matches[1]);
    const double seconds = parse_number(request.get_param_value("wait")).value_or(0);
    const auto end = std::chrono::steady_clock::now() +
                     std::min(kLongestWait, Span(static_cast<std::int64_t>(std::clamp(seconds, 0.0, 100.0) * 1000)));
    for (;;) {
      bool waits = false;
      const std::uint64_t seen = queue_.turn();
      read(request, response, Needs::kUser, [&](Pool& pool, const User& user) -> Result<Json> {
        XOE_ASSIGN(const Lease lease, pool.lease(id));
        if (lease.is_waiting() && lease.user == user.name) pool.touch(id);
        if (lease.user != user.name && user.role < Role::kLead)
          return failure(Code::kInvalidArgument, "lease {} is not one of {}", id, user.name);
        waits = lease.is_waiting();
        return Json{{"lease", json_of(lease, pool.state())}};
      });
      const auto left = std::chrono::floor<Span>(end - std::chrono::steady_clock::now());
      if (!waits || left <= Span(0) || !queue_.await_turn(seen, left)) return;
    }
  }

  void change_lease(const Request& request, Response& response) {
    const auto body = body_of(request, response);
    if (!body) return;
    const std::int64_t id = std::stoll(request.matches[1]);
    const std::string what = request.matches[2];
    const auto command = [&](Pool& pool, const User& user) -> Status {
      if (what == "revoke" || what == "exempt") {
        XOE_ASSIGN(const std::string why, text_field(*body, "why"));
        return what == "revoke" ? pool.revoke(user, id, why) : pool.exempt(user, id, why);
      }
      XOE_ASSIGN(const std::string token, text_field(*body, "token"));
      if (what == "release") return pool.release(user, id, token, "released");
      XOE_ASSIGN(const Span span, span_field(*body, "seconds"));
      return pool.renew(user, id, token, span);
    };
    change(request, response, Needs::kUser, command, [&](Pool& pool, const User&) -> Result<Json> {
      XOE_ASSIGN(const Lease lease, pool.lease(id));
      return Json{{"lease", json_of(lease, pool.state())}};
    });
  }

  void events(const Request& request, Response& response) {
    const auto after = parse_integer(request.get_param_value("after")).value_or(0);
    read(request, response, Needs::kUser, [&](Pool& pool, const User& user) -> Result<Json> {
      if (user.role < Role::kLead) return failure(Code::kInvalidArgument, "only leads and admins see the audit log");
      XOE_ASSIGN(const auto events, pool.store().events(after, kMaxEvents));
      Json list = Json::array();
      for (const Event& event : events) list.push_back(json_of(event));
      return Json{{"events", std::move(list)}};
    });
  }

  void usage(const Request& request, Response& response) {
    read(request, response, Needs::kUser, [&](Pool& pool, const User&) -> Result<Json> {
      const Time now = clock_();
      const auto days = std::clamp<std::int64_t>(parse_integer(request.get_param_value("days")).value_or(7), 1, 3660);
      XOE_ASSIGN(const auto rows, pool.store().usage(hour_of(now) - std::chrono::days(days), now, now));
      Json list = Json::array();
      for (const UsageRow& row : rows) list.push_back(json_of(row));
      return Json{{"usage", std::move(list)}};
    });
  }

  void report(const Request& request, Response& response) {
    const auto body = body_of(request, response);
    if (!body) return;
    const auto told = report_of(*body);
    if (!told) return refuse(response, told.error());
    change(
        request, response, Needs::kAgent, [&](Pool& pool, const User&) { return pool.report(*told); },
        [&](Pool& pool, const User&) -> Result<Json> {
          Json answer{{"end", processes_to_end(pool.state(), told->host)}};
          XOE_ASSIGN(const auto assignments, vm_assignments(pool.state(), pool.store(), told->host));
          for (const VmAssignment& each : assignments) answer["vms"].push_back(json_of(each));
          for (const ClusterLease& each : cluster_leases(pool.state(), told->host, clock_()))
            answer["leases"].push_back(json_of(each));
          return answer;
        });
  }

  void set_team(const Request& request, Response& response) {
    const auto body = body_of(request, response);
    if (!body) return;
    const auto team = team_of(*body);
    if (!team) return refuse(response, team.error());
    change(
        request, response, Needs::kAdmin, [&](Pool& pool, const User& user) { return pool.set_team(user, *team); },
        [](Pool&, const User&) -> Result<Json> { return Json::object(); });
  }

  // A user that exists keeps its token, unless {"new_token": true}.
  void set_user(const Request& request, Response& response) {
    auto body = body_of(request, response);
    if (!body) return;
    const bool renew = body->contains("new_token") && body->at("new_token") == true;
    body->erase("new_token");
    auto wanted = user_of(*body);
    const auto token = random_token();
    if (!wanted || !token) return refuse(response, wanted ? token.error() : wanted.error());
    bool made = false;
    change(
        request, response, Needs::kAdmin,
        [&](Pool& pool, const User& user) {
          const auto known = pool.state().users.find(wanted->name);
          made = renew || known == pool.state().users.end();
          wanted->token_hash = made ? hash_of_token(*token) : known->second.token_hash;
          return pool.set_user(user, *wanted);
        },
        [&](Pool&, const User&) -> Result<Json> {
          return made ? Json{{"token", *token}} : Json::object();
        });
  }

  void remove_user(const Request& request, Response& response) {
    const auto body = body_of(request, response);
    if (!body) return;
    change(
        request, response, Needs::kAdmin,
        [&](Pool& pool, const User& user) -> Status {
          XOE_ASSIGN(const std::string name, text_field(*body, "name"));
          if (name == user.name) return failure(Code::kInvalidArgument, "{} cannot remove itself", name);
          return pool.remove_user(user, name);
        },
        [](Pool&, const User&) -> Result<Json> { return Json::object(); });
  }

  void backup(const Request& request, Response& response) {
    const auto body = body_of(request, response);
    if (!body) return;
    read(request, response, Needs::kAdmin, [&](Pool& pool, const User&) -> Result<Json> {
      XOE_ASSIGN(const std::string path, text_field(*body, "path"));
      if (!path.starts_with('/')) return failure(Code::kInvalidArgument, "path: {} does not begin with /", path);
      XOE_TRY(pool.store().backup_to(path));
      return Json{{"path", path}};
    });
  }

  CommandQueue& queue_;
  CommandQueue::Clock clock_;
};

class RunningServer : public HttpServer {
 public:
  RunningServer(CommandQueue& queue, CommandQueue::Clock clock, std::unique_ptr<httplib::Server> server)
      : handlers_(queue, std::move(clock)), server_(std::move(server)) {
    handlers_.add_to(*server_);
  }
  ~RunningServer() override { server_->stop(); }

  Status listen(const ServerOptions& options) {
    server_->set_payload_max_length(options.max_body);
    server_->set_read_timeout(std::chrono::seconds(10));
    server_->set_keep_alive_max_count(1'000'000);
    server_->set_tcp_nodelay(true);
    server_->new_task_queue = [threads = options.threads] { return new httplib::ThreadPool(threads); };
    server_->set_error_handler([](const Request& request, Response& response) {
      if (!response.body.empty()) return;
      const char* const what = response.status == 413 ? "the request is too large" : "there is no such request";
      refuse(response, response.status,
             Error(Code::kUnsupported, fmt::format("{} {}: {}", request.method, request.path, what)));
    });
    server_->set_exception_handler([](const Request&, Response& response, const std::exception_ptr& caught) {
      try {
        std::rethrow_exception(caught);
      } catch (const std::exception& error) {
        refuse(response, 500, Error(Code::kInternal, error.what()));
      }
    });
    port_ = options.port;
    const bool bound = options.port == 0 ? (port_ = server_->bind_to_any_port(options.address)) > 0
                                         : server_->bind_to_port(options.address, options.port);
    if (!bound)
      return failure(Code::kUnavailable,
                     "cannot listen on {} port {}: another program does, or this is no address of "
                     "this host",
                     options.address, options.port);
    thread_ = std::jthread([this] { server_->listen_after_bind(); });
    while (!server_->is_running()) std::this_thread::yield();  // until then, stop() does nothing
    return {};
  }

  int port() const override { return port_; }

 private:
  Handlers handlers_;
  std::unique_ptr<httplib::Server> server_;
  int port_ = 0;
  std::jthread thread_;
};

Result<std::unique_ptr<httplib::Server>> make_server(const ServerOptions& options) {
  if (options.certificate.empty() != options.private_key.empty())
    return failure(Code::kInvalidArgument, "TLS needs a certificate and its private key");
  if (options.certificate.empty()) {
    if (!is_loopback(options.address))
      return failure(Code::kInvalidArgument,
                     "{} is reachable from other hosts, who could read all tokens: give --tls-cert and --tls-key, or "
                     "listen on 127.0.0.1 behind an ssh tunnel",
                     options.address);
    return std::make_unique<httplib::Server>();
  }
  auto server = std::make_unique<httplib::SSLServer>(options.certificate.c_str(), options.private_key.c_str());
  if (!server->is_valid())
    return failure(Code::kInvalidArgument, "{} and {} are not a certificate and its private key in PEM form",
                   options.certificate, options.private_key);
  return server;
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(CommandQueue& queue, CommandQueue::Clock clock,
                                                      const ServerOptions& options) {
  XOE_ASSIGN(auto made, make_server(options));
  auto server = std::make_unique<RunningServer>(queue, std::move(clock), std::move(made));
  XOE_TRY(server->listen(options));
  return server;
}

}  // namespace xoe::pool
