// One process of an MPI job, for mpi_test.cc:
//   mpi_program SCENE
// Prints "rank N: ok" or the error.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "core/backend/net/choose_mpi.h"
#include "core/backend/net/plugin.h"
#include "core/base/env.h"
#include "core/tests/net/net_conformance.h"

namespace {

using namespace xoe;
using net::Clock;
using std::chrono::milliseconds;

Clock::time_point in(Clock::duration duration) { return Clock::now() + duration; }

struct Job {
  std::unique_ptr<net::Provider> provider;
  net::Exchange exchange;
  int rank = 0, size = 0;
};

// Throws std::exception on any failure, for main().
Job join() {
  Job job;
  job.provider = net::open_plugin(net::choose_mpi(Env::process()).value(), {}).value();
  job.exchange = job.provider->bootstrap().value();
  // The ranks come from the launcher's variables.
  const Env env = Env::process();
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (const auto rank = env.text(name)) job.rank = std::stoi(*rank);
  const auto all =
      job.exchange(std::to_string(job.rank) + std::string(static_cast<std::size_t>(job.rank), '.')).value();
  job.size = static_cast<int>(all.size());
  for (int r = 0; r < job.size; ++r)
    if (all[static_cast<std::size_t>(r)] != std::to_string(r) + std::string(static_cast<std::size_t>(r), '.'))
      throw std::runtime_error("the exchange mixed up the messages");
  return job;
}

std::unique_ptr<net::Net> connect_all(Job& job) {
  net::Members members{std::vector<int>(static_cast<std::size_t>(job.size)), job.rank};
  std::iota(members.ranks.begin(), members.ranks.end(), 0);
  return job.provider->connect(members, job.exchange, in(std::chrono::seconds(30))).value();
}

Status allreduce(net::Net& net, std::vector<float>& data, Clock::duration timeout) {
  return net.run({.kind = CollectiveKind::kAllreduce,
                  .dtype = DType::kFloat32,
                  .in = data.data(),
                  .out = data.data(),
                  .in_count = data.size(),
                  .out_count = data.size(),
                  .options = {.name = "loss"}},
                 in(timeout));
}

std::string expect_failure(const Status& status, Code code, const std::string& text) {
  if (status) return "no error";
  const std::string& message = status.error().message();
  if (status.error().code() != code || message.find(text) == message.npos) return status.error().to_string();
  return "";
}

std::string conformance(Job& job) {
  const auto net = connect_all(job);
  return testing::check_net(*net, job.size, job.rank, testing::net_grid(job.size));
}

// The even or the odd ranks, in descending order.
std::string parts(Job& job) {
  net::Members members;
  for (int r = job.size - 1; r >= 0; --r) {
    if (r % 2 != job.rank % 2) continue;
    if (r == job.rank) members.self = static_cast<int>(members.ranks.size());
    members.ranks.push_back(r);
  }
  const auto among = [&](std::string mine) -> Result<std::vector<std::string>> {
    auto all = job.exchange(std::move(mine));
    if (!all) return all;
    std::vector<std::string> theirs;
    for (const int r : members.ranks) theirs.push_back((*all)[static_cast<std::size_t>(r)]);
    return theirs;
  };
  const auto net = job.provider->connect(members, among, in(std::chrono::seconds(30))).value();
  const testing::NetGrid grid{{0, 1, 1000, 100003}, {DType::kInt16, DType::kBfloat16}, {ReduceOp::kAverage}};
  return testing::check_net(*net, static_cast<int>(members.ranks.size()), members.self, grid);
}

// Several rounds in each direction, and a count beyond the staging buffers.
std::string large(Job& job) {
  const auto net = connect_all(job);
  const testing::NetGrid grid{{5'000'011}, {DType::kFloat32}, {ReduceOp::kSum}};
  return testing::check_net(*net, job.size, job.rank, grid);
}

// At once, and in several rounds.
std::string order(Job& job) {
  const auto net = connect_all(job);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kFloat64})
    for (const std::size_t count : {100, 1'500'001})
      if (auto problem = testing::check_rank_order(*net, job.size, job.rank, dtype, count); !problem.empty())
        return problem;
  return "";
}

std::string two_threads(Job& job) {
  const auto first = connect_all(job), second = connect_all(job);
  const testing::NetGrid grid{{1, 1000, 100003}, {DType::kInt32}, {ReduceOp::kSum}};
  std::string problem;
  std::jthread other([&] { problem = testing::check_net(*second, job.size, job.rank, grid); });
  const std::string mine = testing::check_net(*first, job.size, job.rank, grid);
  other.join();
  return mine + problem;
}

std::size_t open_files() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

// More communicators than MPICH can have at a time.
std::string many(Job& job) {
  std::size_t at_first = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto net = connect_all(job);
    if (const Status s = net->run({}, in(std::chrono::seconds(30))); !s) return s.error().to_string();
    if (i == 10) at_first = open_files();
  }
  return open_files() == at_first ? "" : "files stay open";
}

// The last rank is late; no rank touches the memory of ranks that have timed out.
// Where another version of the world has begun.
std::string told(Job& job) {
  net::Members members{std::vector<int>(static_cast<std::size_t>(job.size)), job.rank};
  std::iota(members.ranks.begin(), members.ranks.end(), 0);
  members.check = []() -> Status { return failure(Code::kUnavailable, "the missing ones will not come"); };
  const auto made = job.provider->connect(members, job.exchange, in(std::chrono::seconds(30)));
  return made ? "connected" : expect_failure(failure(made.error()), Code::kUnavailable, "the missing ones");
}

// As many times as a program may call init().
std::string bootstraps(Job& job) {
  for (int i = 0; i < 3000; ++i) {
    const auto exchange = job.provider->bootstrap();
    if (!exchange) return exchange.error().to_string();
    if (i % 1000 != 0) continue;
    const auto all = (*exchange)(std::to_string(job.rank));
    if (!all || all->back() != std::to_string(job.size - 1)) return "the exchange failed";
  }
  return "";
}

std::string late(Job& job) {
  const auto net = connect_all(job);
  std::vector<float> data(3'000'000, 1.0f);
  if (job.rank == job.size - 1) {
    ::usleep(700'000);
    const Status status = allreduce(*net, data, milliseconds(500));
    return status ? "no error" : "";
  }
  const Status status = allreduce(*net, data, milliseconds(200));
  if (auto p = expect_failure(status, Code::kTimeout, "allreduce (loss): not all of"); !p.empty()) return p;
  if (auto p = expect_failure(allreduce(*net, data, milliseconds(200)), Code::kTimeout, status.error().message());
      !p.empty())
    return "later: " + p;
  std::fill(data.begin(), data.end(), 7.0f);
  ::usleep(1'500'000);
  for (const float x : data)
    if (x != 7.0f) return "a rank wrote to a buffer of a failed collective";
  return "";
}

std::string aborted(Job& job) {
  const auto net = connect_all(job);
  std::vector<float> data(1000);
  if (job.rank == job.size - 1) {
    ::usleep(1'000'000);
    return "";
  }
  std::jthread other([&] {
    ::usleep(100'000);
    net->abort();
  });
  const auto begin = Clock::now();
  const Status status = allreduce(*net, data, std::chrono::seconds(60));
  if (Clock::now() - begin > milliseconds(900)) return "came back late";
  return expect_failure(status, Code::kUnavailable, "aborted");
}

std::string killed(Job& job) {
  const auto net = connect_all(job);
  std::vector<float> data(1000);
  for (int i = 0;; ++i) {
    if (job.rank == 1 && i == 100) ::raise(SIGKILL);
    if (const Status s = allreduce(*net, data, std::chrono::seconds(60)); !s) return s.error().to_string();
  }
}

std::string described(Job& job) {
  if (job.rank == 0) std::printf("%s\n", job.provider->describe().c_str());
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<std::string(Job&)>> scenes{{"conformance", conformance},
                                                                       {"parts", parts},
                                                                       {"large", large},
                                                                       {"order", order},
                                                                       {"two_threads", two_threads},
                                                                       {"many", many},
                                                                       {"bootstraps", bootstraps},
                                                                       {"told", told},
                                                                       {"late", late},
                                                                       {"aborted", aborted},
                                                                       {"killed", killed},
                                                                       {"described", described}};
  const auto scene = scenes.find(argc > 1 ? argv[1] : "");
  if (scene == scenes.end()) {
    std::fprintf(stderr, "usage: mpi_program SCENE\n");
    return 2;
  }
  std::string problem;
  int rank = -1;
  try {
    Job job = join();
    rank = job.rank;
    problem = scene->second(job);
  } catch (const std::exception& e) {
    problem = e.what();
  }
  std::printf("%s", fmt::format("rank {}: {}\n", rank, problem.empty() ? "ok" : problem).c_str());
  std::fflush(stdout);
  // Launchers end a job as soon as one process exits without finalising; after a failure, wait until all have printed.
  if (scene->first == "late" || scene->first == "aborted") ::usleep(3'000'000);
  return problem.empty() ? 0 : 1;
}
