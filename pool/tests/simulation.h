// A pool without a database: time and plans alone.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pool/scheduler/plan.h"

namespace xoe::pool::testing {

using std::chrono::minutes;

inline Time at(int minute) { return Time(minutes(minute)); }

// Hosts "a", "b", ... with so many GPUs each, linked in pairs: 0-1, 2-3.
inline void add_hosts(State& state, const std::vector<int>& counts) {
  for (std::size_t h = 0; h < counts.size(); ++h) {
    const std::string host(1, static_cast<char>('a' + h));
    state.hosts[host] = {.name = host, .online = true};
    for (int i = 0; i < counts[h]; ++i) {
      const auto uuid = [&](int index) { return "GPU-" + host + std::to_string(index); };
      Gpu gpu{.uuid = uuid(i), .host = host, .name = i % 3 == 2 ? "A100" : "Tesla T4", .memory = 16ULL << 30};
      if ((i ^ 1) < counts[h]) gpu.nvlinks = {uuid(i ^ 1)};
      state.activity[gpu.uuid] = {};
      state.gpus[gpu.uuid] = gpu;
    }
  }
}

class Simulation {
 public:
  State state;
  Time now = {};
  std::function<void(const Lease&)> on_start = [](const Lease&) {};
  std::function<void(const Lease&)> on_end = [](const Lease&) {};
  std::function<void()> on_plan = [] {};

  std::int64_t ask(const std::string& user, LeaseRequest request, const std::string& team = {}) {
    const std::int64_t id = state.next_lease++;
    state.leases[id] = {.id = id, .user = user, .team = team, .request = std::move(request), .asked = now};
    plan();
    return id;
  }

  void release(std::int64_t id) {
    end(id);
    plan();
  }

  bool renew(std::int64_t id, Time until) {
    Lease& lease = state.leases.at(id);
    if (promise_before(state, lease, until)) return false;
    lease.expires = std::max(lease.expires, until);
    plan();
    return true;
  }

  // All that happens until then, in order.
  void advance(Time until) {
    for (;;) {
      std::optional<Time> next;
      for (const auto& [id, lease] : state.leases) {
        const auto time = lease.is_open() ? std::optional(lease.ends()) : lease.starts;
        if (time && *time <= until && (!next || *time < *next)) next = time;
      }
      if (!next) break;
      now = *next;
      std::vector<std::int64_t> over;
      for (const auto& [id, lease] : state.leases)
        if (lease.is_open() && lease.ends() <= now) over.push_back(id);
      for (const std::int64_t id : over) end(id);
      plan();
    }
    now = until;
  }

  void plan() {
    const Plan plan = plan_leases(state, now);
    for (const GiveWayCall& call : plan.calls) state.leases.at(call.lease).give_way = call.give_way;
    for (const PlannedLease& planned : plan.waiting) {
      Lease& lease = state.leases.at(planned.lease);
      lease.position = planned.position;
      lease.borrowed = planned.borrowed;
      lease.starts = planned.starts;
      lease.gpus = planned.gpus;
      lease.why = planned.why;
    }
    on_plan();
    for (auto& [id, lease] : state.leases) {
      if (!lease.is_waiting() || !lease.starts || *lease.starts > now) continue;
      lease.state = LeaseState::kOpen;
      lease.begins = now;
      lease.expires = now + lease.request.duration;
      on_start(lease);
    }
  }

 private:
  void end(std::int64_t id) {
    Lease lease = state.leases.at(id);
    lease.ended = now;
    state.leases.erase(id);
    on_end(lease);
  }
};

}  // namespace xoe::pool::testing
