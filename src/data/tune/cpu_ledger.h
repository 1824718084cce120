// What the threads of a process's stages use of its CPUs.
#pragma once

#include <time.h>

#include <functional>
#include <map>
#include <mutex>
#include <vector>

namespace xoe::data {

// CPUs belong to the process, so there is one of these in each; tests make their own. Any thread may call. Stages are
// told apart by address.
class CpuLedger {
 public:
  // Seconds so far: only what comes on top of an earlier answer means anything.
  struct Use {
    double mine = 0;    // of the stage that asks
    double others = 0;  // of all others, also of those that are gone
    int promised = 0;   // threads that others are about to use and that no clock shows yet
  };

  static CpuLedger& of_process();

  // The clocks are those of threads that live until close(); one that ends earlier keeps its last time.
  void open(const void* stage, const std::vector<clockid_t>& clocks);
  void close(const void* stage);

  Use use(const void* stage);
  // `choose` sees what is used, and says how many threads `stage` adds now: promised until it chooses again. One stage
  // chooses at a time.
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

}  // namespace xoe::data
