// The requests of docs/reference/pool-http.md, each with a handler.
#pragma once

#include <httplib.h>

#include <atomic>
#include <functional>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "pool/core/command_queue.h"
#include "pool/server/event_stream.h"
#include "pool/server/metrics.h"
#include "pool/server/rate_limit.h"
#include "pool/server/route.h"
#include "pool/server/wait_limit.h"
#include "pool/state/store_reader.h"

namespace xoe::pool {

struct HandlerLimits {
  StreamLimits streams = {};
  std::size_t waits = 0;  // requests that wait for a lease at once
  int leases = 0;         // new ones of one user in a second; 0: any number
  int leases_at_once = 0;
};

class Handlers {
 public:
  Handlers(CommandQueue& queue, StoreReader reader, CommandQueue::Clock clock, const HandlerLimits& limits,
           ServerCounters& counters);

  void add_to(httplib::Server& server);
  const std::vector<Route>& routes() const noexcept { return routes_; }
  // The methods that this path has; empty: there is no such path.
  std::vector<std::string> methods_of(const std::string& path) const;
  // Whether a user has this token.
  bool knows(const std::string& token);
  // Ends all requests that wait: the server ends.
  void end();

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;
  using Command = std::function<Status(Pool&, const User&)>;
  using Reply = std::function<Result<Json>(Pool&, const User&)>;
  using Handler = std::function<void(const Request&, Response&)>;
  enum class Needs { kAgent, kUser, kLead, kAdmin };

  void add(httplib::Server& server, const char* method, const std::string& path, Handler handler);
  static bool may(Role role, Needs needs);
  static std::optional<User> allow(const Pool& pool, const Request& request, Response& response, Needs needs);
  static bool allow(const User* user, Response& response, Needs needs);
  static void give(Response& response, const Result<Json>& json);
  static std::optional<Json> body_of(const Request& request, Response& response);
  // The body as a struct with a table; an answer was given where it is none.
  template <class Form>
  static std::optional<Form> form_of(const Request& request, Response& response);
  void read(const Request& request, Response& response, Needs needs, const Reply& reply);
  void change(const Request& request, Response& response, Needs needs, const Command& command, const Reply& reply);
  // Without the queue, which may be busy with a plan, and would wait for a long answer.
  void read_aside(const Request& request, Response& response, Needs needs,
                  const std::function<Result<Json>(StoreReader&)>& reply);

  void claim(const Request& request, Response& response, const std::vector<std::int64_t>& ids, const Reply& reply);

  void acquire(const Request& request, Response& response, bool adopt);
  void show_leases(const Request& request, Response& response);
  void show_lease(const Request& request, Response& response);
  void change_lease(const Request& request, Response& response, Needs needs,
                    const std::function<Status(Pool&, const User&, std::int64_t id)>& command);
  void renew(const Request& request, Response& response);
  void release(const Request& request, Response& response);
  void revoke(const Request& request, Response& response);
  void exempt(const Request& request, Response& response);
  void stream(const Request& request, Response& response);
  void metrics(const Request& request, Response& response);
  void events(const Request& request, Response& response);
  void usage(const Request& request, Response& response);
  void report(const Request& request, Response& response);
  void set_team(const Request& request, Response& response);
  void set_user(const Request& request, Response& response);
  void remove_user(const Request& request, Response& response);
  void forget_host(const Request& request, Response& response);
  void backup(const Request& request, Response& response);

  CommandQueue& queue_;
  StoreReader reader_;
  CommandQueue::Clock clock_;
  ServerCounters& counters_;
  EventStreams streams_;
  WaitLimit waits_;
  WaitLimit long_answers_;
  RateLimit new_leases_;
  std::atomic<bool> ending_ = false;
  std::vector<Route> routes_;
  std::vector<std::regex> patterns_;  // of their paths
};

}  // namespace xoe::pool
