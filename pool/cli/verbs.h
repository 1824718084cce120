// The verbs of `xoe pool`. If the command line names one, parse() runs it: it prints its result, errors to stderr, and
// sets the program's exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pool/server/client.h"

namespace xoe::tools::pool {

using xoe::pool::Client;
using xoe::pool::Json;
using xoe::pool::Reply;
using xoe::pool::Span;

// The same for all verbs; `xoe pool run` ends with its program's where that ran.
inline constexpr int kFailed = 1;
inline constexpr int kNoGpu = 3;
inline constexpr int kNotAllowed = 4;
inline constexpr int kNoServer = 5;

void add_serve(CLI::App& app, int& code);
void add_agent(CLI::App& app, int& code);
void add_lease_verbs(CLI::App& app, int& code);  // acquire, adopt, renew, release, revoke, exempt
void add_run(CLI::App& app, int& code);
void add_status_verbs(CLI::App& app, int& code);  // status, events, usage
void add_admin_verbs(CLI::App& app, int& code);   // team, user, forget, backup
void add_vsphere(CLI::App& app, int& code);
void add_slurm(CLI::App& app, int& code);

inline constexpr int kDefaultPort = 7711;

// Options that become members of a request to the pool. `body` outlives the parsing.
template <class Value>
CLI::Option* add_member(CLI::App& verb, Json& body, const std::string& name, const char* member,
                        const std::string& what) {
  return verb.add_option_function<Value>(
      name, [&body, member](const Value& value) { body[member] = value; }, what);
}
CLI::Option* add_member_flag(CLI::App& verb, Json& body, const std::string& name, const char* member,
                             const std::string& what, bool value = true);

// Which pool, and as whom.
struct Connection {
  std::string url = {};
  std::string token_file = {};
  std::string ca_file = {};
  bool json = false;
};
void add_connection_options(CLI::App& verb, Connection& connection);
Result<Client> connect(const Connection& connection, Span timeout = std::chrono::seconds(10));
// For a program that has other things to do while the server does not answer: each request takes two seconds at
// most, and fails then.
Result<Client> connect_briefly(const Connection& connection);

// "xoe pool: MESSAGE" on stderr; returns the exit code.
int fail(const Error& error);
int fail(const Reply& reply);
// A refusal that has to do with the server's state, so that asking again may help.
bool may_pass(const Reply& reply);
// Whether asking again would be in vain: the token is wrong, or may not do this.
bool is_for_good(const Reply& reply);
// On stdout; returns the exit code.
int print(const std::string& text);

// Waits for the time to pass; true: a signal asks the program to end. The caller has HeldSignals.
bool sleep_until_signal(Span span);

// A span such as 90s, 30m, 4h, 2d, or a number of seconds.
void add_span_option(CLI::App& verb, const std::string& name, Span& value, const std::string& what);

// A request for a lease as the command line gives it.
struct LeaseOptions {
  Json request = Json::object();
  std::string memory = {};
  Span duration = std::chrono::hours(4);
  std::string at = {};
  int most_gpus = 0;       // of --gpus MIN:MAX; 0: no range was given
  std::string token = {};  // of the lease; empty: a new one
};
void add_lease_options(CLI::App& verb, LeaseOptions& options);
// Where the GPUs shall be: --host, a virtual machine, or a cluster.
void add_place_options(CLI::App& verb, LeaseOptions& options);
// Asks for a lease, which may wait then; its token is remembered.
Result<Reply> request_lease(Client& client, const Connection& connection, const LeaseOptions& options,
                            const char* path);
// The same, and waits if it is asked to. Its reply has the lease, which is open, waits for its reserved time, or has
// ended because it was refused. The lease's token is remembered. The caller has HeldSignals; when one comes, or the
// server does not answer any more, the lease is given back. `holds` is called as soon as there is a lease.
Result<Reply> acquire(Client& client, const Connection& connection, const LeaseOptions& options, const char* path,
                      const std::function<void(std::int64_t)>& holds = {});
// Waits until the agents of its hosts have opened the GPUs' device files to the holder, where they guard them; says so
// if that takes too long. The caller has HeldSignals; when one comes, it returns.
void await_devices(Client& client, Reply& reply);
// Ok, too, where it was given back before. Until it is ok, the lease's token is remembered. `unavailable`: it can be
// tried again.
Status release(Client& client, const Connection& connection, std::int64_t id);
// The variable that programs find their GPUs in: AMD's have one of their own.
const char* visible_variable(const Json& lease);
// "GPU-...,GPU-..."
std::string visible_devices(const Json& lease);
std::string local_time(const Json& seconds);
// A member that the server leaves out where it does not know it, as one of another version may others; nullptr: it is
// not told.
inline const Json* member_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}
// " until 2026-11-26 16:53:00"; empty: the end is not told.
std::string end_text(const Json& lease);
inline std::int64_t id_of(const Json& lease) { return lease.at("id").get<std::int64_t>(); }

// Tokens of leases, in files that only this user can read.
Result<std::string> lease_token(const Connection& connection, std::int64_t id);
Status remember_lease(const Connection& connection, std::int64_t id, const std::string& token);
void forget_lease(const Connection& connection, std::int64_t id);
// Those of leases that have ended by themselves, once there are many files.
void forget_ended_leases(Client& client, const Connection& connection);
// The folder for them and for the pool's database.
std::string data_folder();
std::string default_token_file();

}  // namespace xoe::tools::pool
