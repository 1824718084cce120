// The CPU time of a process's stages, which share its CPUs.
#pragma once

#include <time.h>

#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace xoe::data {

// CPUs belong to the process, so each has one ledger; tests make their own. A stage is known by its address. Thread
// safety: any thread at any time.
class CpuLedger {
 public:
  // Seconds so far: only the difference to an earlier answer means anything.
  struct Use {
    double mine = 0;    // of the stage that asks
    double others = 0;  // of all others, also of those that are gone
    int promised = 0;   // threads that others have added, and that no clock shows yet
  };

  static CpuLedger& of_process();

  // `clocks` are of threads that live until close(); one that ends earlier keeps its last time.
  void open(const void* stage, const std::vector<clockid_t>& clocks);
  void close(const void* stage);

  Use use(const void* stage);
  // `choose` gets the use so far and returns how many threads `stage` adds now: they count as promised until it
  // chooses again. One stage chooses at a time.
  void choose(const void* stage, const std::function<int(const Use&)>& choose);

 private:
  struct Clock {
    clockid_t id;
    double seconds;
  };
  struct Account {
    std::vector<Clock> clocks;
    int promised = 0;
  };

  static double seconds_of(Account& account);
  Use read(const void* stage);

  std::mutex mutex_;
  std::map<const void*, Account> accounts_;
  double gone_ = 0;  // seconds of stages that closed
};

// The entry of one stage's threads in the process's ledger. Thread safety: one thread at a time.
class CpuAccount {
 public:
  CpuAccount() = default;
  ~CpuAccount() { close(); }
  CpuAccount(const CpuAccount&) = delete;
  CpuAccount& operator=(const CpuAccount&) = delete;

  // From when they run until before they are joined.
  void open(std::span<std::jthread> threads);
  void close();
};

}  // namespace xoe::data
