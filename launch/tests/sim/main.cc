// Simulates elastic jobs over hosts that fail: `xoe run --rendezvous`, its agents, supervisors and ranks, with the
// engine and Gloo, all real, in virtual time.
#include "core/testing/sim/runner.h"
#include "launch/tests/sim/scenario.h"

int main(int argc, char** argv) {
  return xoe::sim::run_suite(argc, argv,
                             {.name = argv[0],
                              .describes = "Simulates elastic jobs over hosts that fail.",
                              .run = &xoe::launch::sim_tests::run_seed});
}
