// Random programs give what a plain computation gives. XOE_SOAK=N runs N of each sort; XOE_SEED=S starts at S.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/tests/comm/process_group.h"
#include "core/tests/engine/engines.h"
#include "core/tests/engine/random_program.h"

namespace xoe {
namespace {

using namespace xoe::testing;

std::uint64_t number_from(const char* variable, std::uint64_t usual) {
  const char* text = std::getenv(variable);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

// Ranks of program `seed`: few more often than many.
int ranks_of(std::uint64_t seed) {
  constexpr int kRanks[] = {2, 3, 2, 4, 1, 2, 3, 5, 2, 4, 3, 6, 2, 7, 3, 8};
  return kRanks[seed % std::size(kRanks)];
}

void show_progress(std::uint64_t done, std::uint64_t all) {
  if (all > 5000 && done % 1000 == 0) std::fprintf(stderr, "%lu of %lu programs\n", done, all);
}

TEST(RandomPrograms, OnThreads) {
  const std::uint64_t first = number_from("XOE_SEED", 1), count = number_from("XOE_SOAK", XOE_SANITIZED ? 60 : 300);
  for (std::uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    const Program program = make_program(seed, ranks_of(seed));
    run_engines(
        program.ranks,
        [&](Engine& engine) {
          EXPECT_EQ(run_program(engine, program, seed), "") << "XOE_SEED=" << seed << ", " << program.ranks << " ranks";
        },
        program.options, program.hosts);
    show_progress(seed - first + 1, count);
  }
}

TEST(RandomPrograms, OnProcesses) {
  const std::uint64_t first = number_from("XOE_SEED", 1) + 1000000,
                      count = number_from("XOE_SOAK", XOE_SANITIZED ? 15 : 80);
  for (std::uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    const Program program = make_program(seed, ranks_of(seed));
    ProcessGroup group(program.ranks, [&](Communicator& communicator) -> std::string {
      auto engine = Engine::create(std::move(communicator), program.options);
      if (!engine) return engine.error().to_string();
      const auto problem = run_program(**engine, program, seed);
      return problem.empty() ? "" : "XOE_SEED=" + std::to_string(seed - 1000000) + ": " + problem;
    });
    group.expect_success();
    show_progress(seed - first + 1, count);
  }
}

}  // namespace
}  // namespace xoe
