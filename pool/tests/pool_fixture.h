// A pool with a database in a folder of the test, and a clock that the test sets.
#pragma once

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>

#include <fmt/format.h>

#include "core/testing/scratch.h"
#include "pool/core/pool.h"

namespace xoe::pool::testing {

using std::chrono::minutes;
using std::chrono::seconds;

// For databases whose every turn would wait for the device.
inline std::filesystem::path memory_folder() {
  return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path();
}

inline Gpu gpu_named(const std::string& host, int index) {
  return {.uuid = "GPU-" + host + std::to_string(index), .host = host, .name = "Tesla T4", .memory = 16ULL << 30};
}

inline HostReport report_of(const std::string& host, int gpus) {
  HostReport report{.host = host};
  for (int i = 0; i < gpus; ++i) report.gpus.push_back(gpu_named(host, i));
  report.activity.resize(report.gpus.size());
  return report;
}

// What the hosts tell next from which GPUs were given back since their last reports, if it is the same as then.
inline std::vector<HostReport> awaited_reports(const State& state) {
  std::vector<HostReport> reports;
  for (const auto& [name, host] : state.hosts) {
    HostReport report{.host = name, .machine = host.machine, .without = host.without, .problem = host.problem};
    bool is_awaited = false;
    for (const auto& [uuid, seen] : state.activity) {
      if (state.gpus.at(uuid).host != name) continue;
      is_awaited = is_awaited || seen.is_stale();
      report.gpus.push_back(state.gpus.at(uuid));
      report.activity.push_back(seen);
      report.activity.back().stale_since.reset();
    }
    for (const auto& [vm, seen] : state.vms)
      if (seen.host == name) report.vms.push_back(seen);
    if (is_awaited && host.online) reports.push_back(std::move(report));
  }
  return reports;
}

inline std::string token_number(int number) { return fmt::format("token{:032}", number); }

inline Pool open_pool(const std::string& path, const Policy& policy = {}) {
  auto store = Store::open(path);
  if (!store) throw std::runtime_error(store.error().to_string());
  auto pool = Pool::open(std::move(*store), policy);
  if (!pool) throw std::runtime_error(pool.error().to_string());
  return std::move(*pool);
}

// With MIG instances, numbered from `first`.
inline HostReport report_of_instances(const std::string& host, int first, int count) {
  HostReport report{.host = host};
  for (int i = first; i < first + count; ++i) {
    report.gpus.push_back(gpu_named(host, i));
    report.gpus.back().uuid = "MIG-" + host + "-" + std::to_string(i);
  }
  report.activity.resize(report.gpus.size());
  return report;
}

class PoolTest : public ::testing::Test {
 protected:
  explicit PoolTest(Policy policy = {.waiting_timeout = std::chrono::hours(24)})
      : policy_(policy), pool_(open_pool(path(), policy)) {
    turn([&] {
      EXPECT_TRUE(pool_.set_team(admin_, {.name = "x", .quota = 4}));
      for (const User& user : {ann_, bob_, lead_}) EXPECT_TRUE(pool_.set_user(admin_, user));
      EXPECT_TRUE(pool_.report(report_of("a", 4)));
    });
  }

  std::string path() const { return scratch_.file("pool.db"); }

  // And the next report of each host from which a GPU was given back: as the one before.
  void turn(const std::function<void()>& commands = [] {}) {
    turn_without_report(commands);
    const auto reports = awaited_reports(pool_.state());
    if (reports.empty()) return;
    turn_without_report([&] {
      for (const HostReport& report : reports) EXPECT_TRUE(pool_.report(report));
    });
  }

  void turn_without_report(const std::function<void()>& commands = [] {}) {
    ASSERT_TRUE(pool_.begin(now_));
    commands();
    const auto done = pool_.finish();
    ASSERT_TRUE(done) << done.error().message();
  }

  // Passes time in steps of half a minute, in which the agent reports.
  void pass(
      Span time, const std::function<void(HostReport&)>& change = [](HostReport&) {}) {
    for (const Time end = now_ + time; now_ < end;) {
      now_ += seconds(30);
      turn([&] {
        HostReport report = report_of("a", 4);
        change(report);
        EXPECT_TRUE(pool_.report(report));
      });
    }
  }

  // What a server that is started later finds in the database.
  Pool after_restart() {
    const std::string copy = scratch_.file(fmt::format("copy-{}.db", ++restarts_));
    EXPECT_TRUE(pool_.store().backup_to(copy));
    return open_pool(copy, policy_);
  }

  Result<std::int64_t> acquire(const User& user, const LeaseRequest& request) {
    Result<std::int64_t> id = failure(Code::kInternal, "no turn");
    turn([&] { id = pool_.acquire(user, request, token_number(++tokens_)); });
    return id;
  }
  Lease lease(std::int64_t id) { return pool_.lease(id).value(); }
  std::vector<std::string> events(std::int64_t lease) {
    std::vector<std::string> kinds;
    const auto all = pool_.store().events(0, 10000);
    for (const Event& event : *all)
      if (event.lease == lease) kinds.push_back(event.kind);
    return kinds;
  }

  Scratch scratch_;
  Policy policy_;
  Time now_ = Time(std::chrono::hours(24 * 365 * 50));
  User admin_{.name = "root", .role = Role::kAdmin, .token_hash = "r", .max_priority = 9};
  User ann_{.name = "ann", .team = "x", .token_hash = "a"};
  User bob_{.name = "bob", .team = "x", .token_hash = "b"};
  User lead_{.name = "lea", .team = "x", .role = Role::kLead, .token_hash = "l", .max_priority = 5};
  Pool pool_;
  int tokens_ = 0;
  int restarts_ = 0;
};

}  // namespace xoe::pool::testing
