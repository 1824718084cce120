// A training of a few numbers, under xoe::elastic::run(): what simulated ranks do.
#pragma once

#include <cstdint>
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
  bool stop = false;
};
extern Journal* journal;

// The program: COMMIT_EVERY MICROSECONDS comm|groups|engine: steps from commit to commit, how long one computes, and
// what sums.
int training(int argc, char** argv);

}  // namespace xoe::launch::sim_tests
