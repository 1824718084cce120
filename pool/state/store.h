// The pool's state in its database. Changes are grouped into transactions by the caller.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pool/model/state.h"
#include "pool/state/database.h"

namespace xoe::pool {

struct UsageRow {
  Time hour = {};  // its begin
  std::string user = {};
  std::string team = {};
  Span held = {};  // GPU-time that leases held
  Span busy = {};  // of it, with work on the GPU
  Span idle = {};  // of it, without; the rest was not observed
};

inline constexpr std::size_t kMostUsageRows = 100'000;  // of one answer

// Gives the rows of whole hours from `from` to `to`, by hour. `invalid_argument`: there are more than kMostUsageRows.
Result<std::vector<UsageRow>> usage_of(Database& database, Time from, Time to, Time now);
inline constexpr std::string_view kUserColumns = "name, team, role, token_hash, max_gpus, max_priority, idle_exempt";
// A row with them.
Result<User> user_of(const Statement& row);

// The last lease for a virtual machine that had a GPU: one row, however long the GPU's history is.
inline constexpr std::string_view kLastLeaseQuery =
    "SELECT lease FROM holding WHERE gpu = ? AND vm = ? ORDER BY lease DESC LIMIT 1";

// Of one thread at a time. An error of one statement leaves the transaction to be rolled back.
class Store {
 public:
  // Creates or migrates the database.
  static Result<Store> open(const std::string& path);

  // All but the policy and what agents report.
  Result<State> load();

  Status begin() { return database_.execute("BEGIN IMMEDIATE"); }
  // After it returns, the changes survive a crash of the machine.
  Status commit() { return database_.execute("COMMIT"); }
  void rollback();

  Status save(const Host& host);
  Status save(const Gpu& gpu);
  Status save(const Team& team);
  Status save(const User& user);
  Status remove_user(const std::string& name);
  Status remove_gpu(const std::string& uuid);
  // REQUIRES: none of its GPUs is left.
  Status remove_host(const std::string& name);
  // With the GPUs that it holds.
  Status save(const Lease& lease);
  Status append(const Event& event);
  // Adds its `busy` and `idle`; what was held follows from the leases.
  Status add_usage(const UsageRow& usage);

  Result<std::optional<Lease>> find_lease(std::int64_t id);
  // By the key of asking.
  Result<std::optional<Lease>> find_lease(const std::string& user, const std::string& token_hash);
  // The last lease for a virtual machine that had the GPU.
  Result<std::optional<Lease>> last_lease_of(const std::string& gpu, const std::string& vm);
  Status save(const ClockMark& mark);
  // nullopt: none was saved.
  Result<std::optional<ClockMark>> clock_mark();
  // At most `limit` with a number above `after`.
  Result<std::vector<Event>> events(std::int64_t after, int limit);
  // The number of the newest line of the audit log; 0: it is empty.
  Result<std::int64_t> last_event();
  Result<std::vector<UsageRow>> usage(Time from, Time to, Time now) { return usage_of(database_, from, to, now); }
  Status backup_to(const std::string& path) { return database_.backup_to(path); }
  const std::string& path() const noexcept { return path_; }

 private:
  Store(Database database, std::string path) : database_(std::move(database)), path_(std::move(path)) {}
  Status prepare();
  Status load_hosts(State& state);
  Status load_people(State& state);
  Status load_leases(State& state);

  Database database_;
  std::string path_;
  Statement save_lease_, hold_, end_holdings_, append_, add_usage_, find_by_id_, find_by_token_, held_by_, last_of_;
};

}  // namespace xoe::pool
