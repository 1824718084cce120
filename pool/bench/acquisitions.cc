// How many leases a pool's server gives in a second, over HTTP, to clients that each acquire and release one GPU again
// again, and how long an acquisition takes. Synchronous FULL: each is on the device before it is answered. There are
// two GPUs for each client, and agents that report fifty times a second: a GPU that was given back is free with the
// next report, and others are given before it.
//   xoe_bench_pool [CLIENTS [SECONDS [FOLDER]]]     FOLDER: of the database; its device decides
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/random_token.h"
#include "pool/server/client.h"
#include "pool/server/http_server.h"
#include "pool/state/token.h"

namespace {

using namespace xoe::pool;
using Clock = std::chrono::steady_clock;

void require(bool holds, const char* what) {
  if (holds) return;
  fmt::print(stderr, "xoe_bench_pool: {}\n", what);
  std::exit(1);
}

std::string new_token() { return xoe::random_token().value(); }

std::vector<HostReport> reports_for(int clients) {
  std::vector<HostReport> reports;
  for (int host = 0; host < 8; ++host) {
    HostReport& report = reports.emplace_back(HostReport{.host = fmt::format("host{}", host)});
    for (int i = 0; i < (clients + 3) / 4; ++i)
      report.gpus.push_back({.uuid = fmt::format("GPU-{}-{}", host, i), .host = report.host, .name = "T4"});
    report.activity.resize(report.gpus.size());
  }
  return reports;
}

// A user for each client, and the GPUs.
std::vector<std::string> set_up(Pool& pool, int clients) {
  const User admin{.name = "admin", .role = Role::kAdmin};
  std::vector<std::string> tokens;
  bool good = bool(pool.begin(system_now()));
  for (int i = 0; i < clients; ++i) {
    tokens.push_back(new_token());
    good = good && pool.set_user(admin, {.name = fmt::format("user{}", i), .token_hash = hash_of_token(tokens.back())});
  }
  for (const HostReport& report : reports_for(clients)) good = good && pool.report(report);
  require(good && pool.finish(), "cannot set up");
  return tokens;
}

std::vector<double> run_client(const std::string& url, const std::string& token, Clock::time_point end) {
  Client client = Client::create({.url = url, .token = token}).value();
  std::vector<double> milliseconds;
  while (Clock::now() < end) {
    const std::string lease_token = new_token();
    const auto begin = Clock::now();
    auto reply = client.post("/v1/leases", {{"token", lease_token}, {"wait", true}});
    while (reply && reply->ok() && reply->body.at("lease").at("state") == "waiting")
      reply = client.get(fmt::format("/v1/leases/{}?wait=1", reply->body.at("lease").at("id").get<std::int64_t>()));
    require(reply && reply->ok() && reply->body.at("lease").at("state") == "open", "a lease was refused");
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    const auto path = fmt::format("/v1/leases/{}/release", reply->body.at("lease").at("id").get<std::int64_t>());
    const auto released = client.post(path, {{"token", lease_token}});
    require(released && released->ok(), "a release was refused");
  }
  return milliseconds;
}

}  // namespace

int main(int argc, char** argv) {
  const int clients = argc > 1 ? std::atoi(argv[1]) : 64;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 5;
  const std::string folder = argc > 3 ? argv[3] : ".";
  require(clients > 0 && clients <= 200 && seconds > 0, "usage: xoe_bench_pool [CLIENTS [SECONDS [FOLDER]]]");
  const std::string path = folder + "/xoe_bench_pool.db";
  for (const char* suffix : {"", "-wal", "-shm", "-lock"}) std::filesystem::remove(path + suffix);
  std::vector<double> all;
  {
    Pool pool = Pool::open(Store::open(path).value(), {.host_timeout = std::chrono::hours(1)}).value();
    const auto tokens = set_up(pool, clients);
    CommandQueue queue(std::move(pool), system_now);
    const auto server = HttpServer::start(queue, system_now, {.rate = 0}).value();
    const std::string url = fmt::format("http://127.0.0.1:{}", server->port());
    const std::jthread agents([&, reports = reports_for(clients)](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        const auto report_all = [&](Pool& pool) {
          for (const HostReport& report : reports) require(bool(pool.report(report)), "a report was refused");
        };
        require(bool(queue.change(report_all, [](Pool&) {})), "a turn failed");
      }
    });
    std::vector<std::vector<double>> times(static_cast<std::size_t>(clients));
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < times.size(); ++i)
        threads.emplace_back([&, i] { times[i] = run_client(url, tokens[i], end); });
    }
    for (const auto& some : times) all.insert(all.end(), some.begin(), some.end());
  }
  for (const char* suffix : {"", "-wal", "-shm", "-lock"}) std::filesystem::remove(path + suffix);
  std::ranges::sort(all);
  const auto at = [&](double share) {
    return all[static_cast<std::size_t>(share * static_cast<double>(all.size() - 1))];
  };
  fmt::print("{} clients: {:.0f} acquisitions/s, and as many releases; median {:.1f} ms, p99 {:.1f} ms\n", clients,
             static_cast<double>(all.size()) / seconds, at(0.5), at(0.99));
}
