// How much CPU time the pool's scheduler takes to plan for all who wait, when a lease is asked for, when one is given
// back early, and when nothing has changed.
//   xoe_bench_pool_planning [WAITING [HOSTS]]     of 8 GPUs each, linked in pairs
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "pool/scheduler/plan.h"

namespace {

using namespace xoe::pool;
using std::chrono::minutes;

class Bench {
 public:
  Bench(int waiting, int hosts) : waiting_(waiting) {
    for (int h = 0; h < hosts; ++h) add_host(fmt::format("host{:03}", h));
    state_.policy.min_runtime = minutes(10);
    for (int team = 0; team < 4; ++team) {
      const std::string name = fmt::format("team{}", team);
      state_.teams[name] = {.name = name, .quota = 2 * hosts};
    }
    for (int user = 0; user < 40; ++user) {
      const std::string name = fmt::format("user{:02}", user);
      state_.users[name] = {.name = name, .team = fmt::format("team{}", user % 4), .max_gpus = user % 2 == 0 ? 0 : 16};
    }
  }

  void run(int events) {
    while (waiting() < waiting_) {
      ask();
      plan();
    }
    std::vector<double> asked, ended, unchanged;
    for (int i = 0; i < events; ++i) {
      now_ += minutes(1);
      end_what_is_over();
      plan();
      ask();
      asked.push_back(plan());
      unchanged.push_back(plan());
      end_one_early();
      ended.push_back(plan());
      while (waiting() < waiting_) ask();
    }
    print("one more lease", asked);
    print("one given back early", ended);
    print("nothing changed", unchanged);
  }

 private:
  int pick(int count) { return std::uniform_int_distribution(0, count - 1)(random_); }
  int waiting() const {
    return static_cast<int>(std::ranges::count_if(state_.leases, [](auto& item) { return item.second.is_waiting(); }));
  }

  void add_host(const std::string& host) {
    state_.hosts[host] = {.name = host, .online = true};
    for (int i = 0; i < 8; ++i) {
      const std::string uuid = fmt::format("GPU-{}-{}", host, i);
      state_.gpus[uuid] = {.uuid = uuid,
                           .host = host,
                           .name = i < 4 ? "Tesla T4" : "A100",
                           .memory = 16ULL << 30,
                           .nvlinks = {fmt::format("GPU-{}-{}", host, i ^ 1)}};
      state_.activity[uuid] = {};
    }
  }

  void ask() {
    const auto& user = std::next(state_.users.begin(), pick(static_cast<int>(state_.users.size())))->second;
    LeaseRequest request{.gpus = 1 + pick(pick(4) == 0 ? 8 : 3), .duration = minutes(20 + pick(600)), .wait = true};
    if (pick(4) == 0 && request.gpus <= 4) request.type = pick(2) == 0 ? "t4" : "a100";
    if (pick(8) == 0 && request.gpus <= 2) request.same_nvlink = true;
    if (pick(8) == 0) request.any_host = true;
    const std::int64_t id = state_.next_lease++;
    state_.leases[id] = {.id = id, .user = user.name, .team = user.team, .request = request, .asked = now_};
  }

  void end_what_is_over() {
    std::erase_if(state_.leases, [&](const auto& item) { return item.second.is_open() && item.second.ends() <= now_; });
  }

  void end_one_early() {
    std::vector<std::int64_t> open;
    for (const auto& [id, lease] : state_.leases)
      if (lease.is_open()) open.push_back(id);
    if (!open.empty()) state_.leases.erase(open[static_cast<std::size_t>(pick(static_cast<int>(open.size())))]);
  }

  static double cpu_milliseconds() {
    timespec time = {};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
  }

  // Returns the milliseconds of CPU time that it took.
  double plan() {
    const double begin = cpu_milliseconds();
    const Plan plan = plan_leases(state_, now_);
    const double time = cpu_milliseconds() - begin;
    for (const GiveWayCall& call : plan.calls) state_.leases.at(call.lease).give_way = call.give_way;
    for (const PlannedLease& planned : plan.waiting) {
      Lease& lease = state_.leases.at(planned.lease);
      lease.starts = planned.starts;
      lease.gpus = planned.gpus;
      lease.borrowed = planned.borrowed;
      if (!lease.starts || *lease.starts > now_) continue;
      lease.state = LeaseState::kOpen;
      lease.begins = now_;
      lease.expires = now_ + lease.request.duration;
    }
    return time;
  }

  static void print(const char* what, std::vector<double>& times) {
    std::ranges::sort(times);
    fmt::print("{:<21} median {:6.2f} ms, p99 {:6.2f} ms, most {:6.2f} ms\n", what, times[times.size() / 2],
               times[times.size() * 99 / 100], times.back());
  }

  int waiting_;
  State state_;
  Time now_ = {};
  std::mt19937 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  const int waiting = argc > 1 ? std::atoi(argv[1]) : 500;
  const int hosts = argc > 2 ? std::atoi(argv[2]) : 16;
  if (waiting < 1 || waiting > 10000 || hosts < 1 || hosts > 128) {
    fmt::print(stderr, "usage: xoe_bench_pool_planning [WAITING [HOSTS]]\n");
    return 2;
  }
  fmt::print("{} leases wait for {} GPUs; to plan after\n", waiting, 8 * hosts);
  Bench(waiting, hosts).run(100);
}
