// A record of all that the ranks of a simulation have done.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace xoe::launch::sim_tests {

// What all ranks of a simulation have done, in the memory that simulated processes share: an eye that sees all.
struct Record {
  std::int64_t step = 0;
  int rank = 0, size = 0;
  long long pid = 0;
  std::int64_t at = 0;  // virtual time
};
struct Journal {
  std::vector<Record> steps;  // that a rank completed
  struct End {
    std::int64_t step = 0;
    double total = 0;
    std::int64_t at = 0;
  };
  std::vector<End> ends;  // of ranks that ended well
  // What a rank said when it lost others.
  struct Loss {
    std::string host;  // of the rank
    std::string cause;
    std::int64_t at = 0;
  };
  std::vector<Loss> losses;
  // The names of the operations of a step, in the order in which the first rank that was done with it ran them.
  struct Order {
    int rank = 0;
    std::vector<std::string> names;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Order> orders;  // by the ledger's world, and step
  std::map<pid_t, std::string> ledgers;                           // what would be their files
  std::int64_t last_world = 0;                                    // in these
  std::vector<std::string> problems;
  bool stop = false;
};
extern Journal* journal;

// Records of the data set: a few steps are an epoch.
inline constexpr std::int64_t kRecords = 41;

}  // namespace xoe::launch::sim_tests
