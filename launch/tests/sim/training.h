// A training of a few numbers, under xoe::elastic::run(): what simulated ranks do.
#pragma once

namespace xoe::launch::sim_tests {

// The program: COMMIT_EVERY MICROSECONDS comm|groups|engine: steps from commit to commit, how long one computes, and
// what sums.
int training(int argc, char** argv);

}  // namespace xoe::launch::sim_tests
