// Ranks as processes: forked by the test, joined through the real init().
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/env.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/store.h"
#include "core/bootstrap/store_service.h"
#include "core/comm/init.h"
#include "xoe/communicator.h"

namespace xoe::testing {

// The environment that a launcher gives to a rank. store: empty, and rank 0 serves one.
inline std::map<std::string, std::string, std::less<>> rank_variables(
    int rank, int size, const std::string& job, const std::string& store = {},
    const std::map<std::string, std::string>& more = {}) {
  std::map<std::string, std::string, std::less<>> values{{"XOE_RANK", std::to_string(rank)},
                                                         {"XOE_SIZE", std::to_string(size)},
                                                         {"XOE_LOCAL_RANK", std::to_string(rank)},
                                                         {"XOE_LOCAL_SIZE", std::to_string(size)},
                                                         {"XOE_CROSS_RANK", "0"},
                                                         {"XOE_CROSS_SIZE", "1"},
                                                         {"XOE_JOB", job},
                                                         {"XOE_TIMEOUT", "60"},
                                                         {"XOE_ARENA_BYTES", std::to_string(256 << 20)}};
  if (!store.empty()) values["XOE_STORE"] = store;
  for (const auto& [name, value] : more) values[name] = value;
  return values;
}
inline Env rank_env(int rank, int size, const std::string& job, const std::string& store = {},
                    const std::map<std::string, std::string>& more = {}) {
  return Env(rank_variables(rank, size, job, store, more));
}

// Forks `size` ranks that call body(communicator); an empty string is success, any other text is printed. Children that
// the test kills have the signal as their wait status.
class ProcessGroup {
 public:
  using Body = std::function<std::string(Communicator&)>;

  // more: further variables of the ranks' environment.
  ProcessGroup(int size, const Body& body, const std::map<std::string, std::string>& more = {}) {
    static int groups = 0;
    const std::string job = "test-" + std::to_string(::getpid()) + "-" + std::to_string(groups++);
    std::fflush(nullptr);
    for (int rank = 0; rank < size; ++rank) {
      const pid_t pid = ::fork();
      if (pid == 0) ::_exit(child(rank, size, job, body, more));
      pids_.push_back(pid);
    }
  }
  // hosts: by rank; each has its own name and shared memory. The ranks connect over TCP. of_last: variables of the last
  // rank alone. limits: of the store at which they meet.
  ProcessGroup(const std::vector<int>& hosts, const Body& body, std::map<std::string, std::string> more = {},
               const std::map<std::string, std::string>& of_last = {}, const bootstrap::StoreLimits& limits = {}) {
    std::fflush(nullptr);
    more["XOE_STORE"] = serve_store(limits);
    more["XOE_SECRET"] = kSecret;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      const auto before = std::count(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(rank), hosts[rank]);
      more["XOE_HOSTNAME"] = "host" + std::to_string(hosts[rank]);
      more["XOE_LOCAL_RANK"] = std::to_string(before);
      more["XOE_LOCAL_SIZE"] = std::to_string(std::count(hosts.begin(), hosts.end(), hosts[rank]));
      if (rank + 1 == hosts.size())
        for (const auto& [name, value] : of_last) more[name] = value;
      const pid_t pid = ::fork();
      if (pid == 0) ::_exit(child(static_cast<int>(rank), static_cast<int>(hosts.size()), "hosts", body, more));
      pids_.push_back(pid);
    }
  }
  ProcessGroup(const ProcessGroup&) = delete;
  ~ProcessGroup() {
    if (store_ > 0) pids_.push_back(store_);
    for (const pid_t pid : pids_) {
      if (pid <= 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

  // In a separate process, because ranks must be forked from a process without threads.
  std::string serve_store(const bootstrap::StoreLimits& limits) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    store_ = ::fork();
    if (store_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto address = bootstrap::SocketAddress::parse("tcp:127.0.0.1:0").value();
      const auto store =
          bootstrap::StoreServer::start(bootstrap::StoreService::listen(address, kSecret, limits).value()).value();
      if (::write(ends[1], store->address().data(), store->address().size()) > 0) ::pause();
      ::_exit(1);
    }
    ::close(ends[1]);
    char address[128] = {};
    EXPECT_GT(::read(ends[0], address, sizeof address - 1), 0);
    ::close(ends[0]);
    return address;
  }

  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }

  // The exit code, or minus the signal.
  int wait(int rank) {
    int status = 0;
    ::waitpid(pids_[static_cast<std::size_t>(rank)], &status, 0);
    pids_[static_cast<std::size_t>(rank)] = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  void expect_success() {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank)
      EXPECT_EQ(wait(static_cast<int>(rank)), 0) << "rank " << rank;
  }

 private:
  static int child(int rank, int size, const std::string& job, const Body& body,
                   const std::map<std::string, std::string>& more) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::string problem;
    {
      // For a body that calls init() again.
      for (const auto& [name, value] : rank_variables(rank, size, job, {}, more))
        ::setenv(name.c_str(), value.c_str(), 1);
      auto communicator = init();
      problem = communicator ? body(*communicator) : communicator.error().to_string();
    }
    if (!problem.empty()) std::fprintf(stderr, "rank %d: %s\n", rank, problem.c_str());
    return problem.empty() ? 0 : 1;
  }

  static constexpr const char* kSecret = "secret of the test";
  pid_t store_ = -1;
  std::vector<pid_t> pids_;
};

}  // namespace xoe::testing
