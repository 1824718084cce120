// Runs the members of nets as threads or forked processes of a test; they exchange addresses through shared memory.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/backend/net/plugin.h"

namespace xoe::testing {

using net::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline Clock::time_point in(Clock::duration duration) { return Clock::now() + duration; }

// Shared memory through which members exchange up to 64 KiB each, for a few rounds.
class ExchangeTable {
 public:
  explicit ExchangeTable(int size, int rounds = 4)
      : size_(size),
        bytes_(sizeof(Entry) * static_cast<std::size_t>(size * rounds)),
        entries_(static_cast<Entry*>(
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ExchangeTable(const ExchangeTable&) = delete;
  ~ExchangeTable() { ::munmap(entries_, bytes_); }

  // The exchange of one member; its n-th call takes part in round n.
  net::Exchange exchange(int member) {
    return [this, member, round = 0](std::string mine) mutable -> Result<std::vector<std::string>> {
      const Clock::time_point deadline = in(seconds(30));
      Entry* const entries = entries_ + size_ * round++;
      std::memcpy(entries[member].data, mine.data(), mine.size());
      entries[member].length.store(static_cast<int>(mine.size()) + 1);
      std::vector<std::string> all;
      for (int m = 0; m < size_; ++m) {
        while (entries[m].length.load() == 0) {
          if (Clock::now() > deadline) return failure(Code::kTimeout, "no message from member " + std::to_string(m));
          ::usleep(200);
        }
        all.emplace_back(entries[m].data, static_cast<std::size_t>(entries[m].length.load() - 1));
      }
      return all;
    };
  }

 private:
  struct Entry {
    std::atomic<int> length;  // + 1
    char data[65536];
  };

  const int size_;
  const std::size_t bytes_;
  Entry* const entries_;
};

// The members' ranks in the job differ from their numbers: 10, 11, ...
inline net::Members members_of(int size, int self) {
  net::Members members{
      .ranks = std::vector<int>(static_cast<std::size_t>(size)), .self = self, .secret = "secret of the test"};
  std::iota(members.ranks.begin(), members.ranks.end(), 10);
  return members;
}

// The tests run once more with XOE_TEST_ENCRYPT=1.
inline std::unique_ptr<net::Provider> open_gloo() {
  auto provider =
      net::open_plugin("gloo", {.address = "127.0.0.1", .encrypt = ::getenv("XOE_TEST_ENCRYPT") != nullptr});
  if (!provider) throw std::runtime_error(provider.error().to_string());
  return std::move(*provider);
}

inline std::unique_ptr<net::Net> connect(net::Provider& provider, const net::Exchange& exchange, int size, int self) {
  auto made = provider.connect(members_of(size, self), exchange, in(seconds(60)));
  if (!made) throw std::runtime_error(made.error().to_string());
  return std::move(*made);
}

inline std::unique_ptr<net::Net> connect(net::Provider& provider, ExchangeTable& table, int size, int self) {
  return connect(provider, table.exchange(self), size, self);
}

// Runs body(net, member) on a thread for each member.
inline void run_threads(int size, const std::function<void(net::Net&, int)>& body) {
  ExchangeTable table(size);
  std::vector<std::jthread> threads;
  for (int m = 0; m < size; ++m)
    threads.emplace_back([&, m] {
      const auto provider = open_gloo();
      const auto net = connect(*provider, table, size, m);
      body(*net, m);
    });
}

// Forks the members; an empty string is success, any other text is printed.
class NetProcesses {
 public:
  using Body = std::function<std::string(net::Net&, int)>;
  using Around = std::function<net::Exchange(net::Exchange)>;

  // around: does more in the members' exchanges.
  NetProcesses(int size, const Body& body, const Around& around = std::identity()) : table_(size) {
    std::fflush(nullptr);
    for (int m = 0; m < size; ++m) {
      const pid_t pid = ::fork();
      if (pid == 0) ::_exit(child(size, m, body, around));
      pids_.push_back(pid);
    }
  }
  NetProcesses(const NetProcesses&) = delete;
  ~NetProcesses() {
    for (const pid_t pid : pids_) {
      if (pid <= 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

  pid_t pid(int member) const { return pids_[static_cast<std::size_t>(member)]; }

  // The exit code, or minus the signal.
  int wait(int member) {
    int status = 0;
    ::waitpid(pid(member), &status, 0);
    pids_[static_cast<std::size_t>(member)] = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  int child(int size, int member, const Body& body, const Around& around) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::string problem;
    try {
      const auto provider = open_gloo();
      const auto net = connect(*provider, around(table_.exchange(member)), size, member);
      problem = body(*net, member);
    } catch (const std::exception& e) {
      problem = e.what();
    }
    if (!problem.empty()) std::fprintf(stderr, "member %d: %s\n", member, problem.c_str());
    return problem.empty() ? 0 : 1;
  }

  ExchangeTable table_;
  std::vector<pid_t> pids_;
};

}  // namespace xoe::testing
