// The mpi plug-ins under their own launchers, and which plug-in fits which launcher.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/backend/net/choose_mpi.h"
#include "core/testing/places.h"

namespace xoe::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int code = 0;
  std::string output;
  double seconds = 0;
};

// timeout(1) ends the launcher, which ends its processes; then the code is 124.
Outcome mpirun(const std::string& flavour, int size, const std::string& scene) {
  const std::string options = flavour == "openmpi" ? "--allow-run-as-root --oversubscribe" : "";
  const std::string command = fmt::format("timeout 200 mpirun.{} {} -np {} '{}' {} 2>&1 </dev/null", flavour, options,
                                          size, built_file("mpi_program"), scene);
  const auto begin = std::chrono::steady_clock::now();
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> part{};
  while (const std::size_t n = std::fread(part.data(), 1, part.size(), pipe)) outcome.output.append(part.data(), n);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

class Mpi : public ::testing::TestWithParam<const char*> {
 protected:
  // leaves_clean: no rank fails, so that the launcher reports no error.
  void expect_ok(int size, const std::string& scene, bool leaves_clean = true) {
    const Outcome outcome = mpirun(GetParam(), size, scene);
    for (int r = 0; r < size; ++r) EXPECT_THAT(outcome.output, HasSubstr(fmt::format("rank {}: ok\n", r))) << scene;
    if (leaves_clean) {
      EXPECT_EQ(outcome.code, 0) << outcome.output;
    }
    EXPECT_NE(outcome.code, 124) << "hangs: " << outcome.output;
  }
};

TEST_P(Mpi, Conformance) {
  for (const int size : {1, 2, 3, 4, 7}) expect_ok(size, "conformance");
}
TEST_P(Mpi, GroupsOfSomeRanksInAnyOrder) { expect_ok(5, "parts"); }
TEST_P(Mpi, ManyRounds) { expect_ok(3, "large"); }
TEST_P(Mpi, ReducesInTheOrderOfRanks) { expect_ok(4, "order"); }
TEST_P(Mpi, TwoNetsFromTwoThreads) { expect_ok(2, "two_threads"); }
TEST_P(Mpi, ThousandsOfNetsLeaveNothingBehind) { expect_ok(2, "many"); }
TEST_P(Mpi, ThousandsOfBootstrapsLeaveNothingBehind) { expect_ok(2, "bootstraps"); }
TEST_P(Mpi, NoCommunicatorIsMadeWithPeersThatWillNotCome) { expect_ok(2, "told"); }
TEST_P(Mpi, AMemberThatStaysAwayEndsInATimeOut) { expect_ok(3, "late", false); }
TEST_P(Mpi, AbortEndsACallOfAnotherThread) { expect_ok(2, "aborted", false); }

// MPI's launchers end a job in which a process died: no rank is left waiting.
TEST_P(Mpi, AKilledMemberEndsTheJob) {
  const Outcome outcome = mpirun(GetParam(), 3, "killed");
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.code, 124);
  EXPECT_LT(outcome.seconds, 60);
  EXPECT_THAT(outcome.output, Not(HasSubstr(": ok")));
}

TEST_P(Mpi, TellsWhatItIs) {
  const Outcome outcome = mpirun(GetParam(), 2, "described");
  EXPECT_THAT(outcome.output, HasSubstr(std::string(GetParam()) == "openmpi" ? "Open MPI v" : "MPICH Version"));
  EXPECT_THAT(outcome.output, HasSubstr("thread multiple, rank 0 of 2"));
}

INSTANTIATE_TEST_SUITE_P(Of, Mpi, ::testing::ValuesIn(std::vector<const char*>{XOE_MPI_FLAVOURS}),
                         [](const auto& test) { return std::string(test.param); });

std::string chosen(std::map<std::string, std::string, std::less<>> variables) {
  const auto name = net::choose_mpi(Env(std::move(variables)));
  return name ? *name : std::string(code_name(name.error().code()));
}

TEST(ChooseMpi, ByTheLauncherThatStartedTheProcess) {
  EXPECT_EQ(chosen({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "0"}}), "mpi-openmpi");
  EXPECT_EQ(chosen({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_FD", "7"}}), "mpi-mpich");
  EXPECT_EQ(chosen({{"SLURM_PROCID", "1"}, {"PMI_FD", "7"}}), "mpi-mpich");
  EXPECT_EQ(chosen({{"SLURM_PROCID", "1"}, {"PMIX_RANK", "1"}}), "mpi-openmpi");
}

TEST(ChooseMpi, AsTheUserSays) {
  EXPECT_EQ(chosen({{"XOE_MPI", "mpich"}, {"OMPI_COMM_WORLD_SIZE", "4"}}), "mpi-mpich");
  EXPECT_EQ(chosen({{"XOE_MPI", "openmpi"}}), "mpi-openmpi");
  EXPECT_EQ(chosen({{"XOE_MPI", "intel"}}), "invalid_argument");
}

TEST(ChooseMpi, NoneWithoutALauncher) {
  const auto name = net::choose_mpi(Env({{"SLURM_JOB_ID", "12"}, {"XOE_RANK", "0"}}));
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code(), Code::kUnsupported);
  EXPECT_THAT(name.error().message(), HasSubstr("start it with mpirun"));
}

}  // namespace
}  // namespace xoe::testing
