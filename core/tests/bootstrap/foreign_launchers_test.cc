// The real launchers of Open MPI and MPICH, where they are installed, and xoe run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/testing/places.h"

namespace {

struct Ran {
  std::string output;
  int code = -1;
};

Ran shell(const std::string& command) {
  Ran ran;
  FILE* pipe = ::popen((command + " 2>&1 </dev/null").c_str(), "r");
  std::array<char, 4096> chunk;
  while (const auto count = std::fread(chunk.data(), 1, chunk.size(), pipe)) ran.output.append(chunk.data(), count);
  const int status = ::pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

bool installed(const std::string& program) { return shell("command -v " + program).code == 0; }

// MPICH's mpirun itself dies of a broken pipe now and then.
Ran with_mpich(const std::string& command) {
  constexpr int kBrokenPipe = 128 + 13;
  Ran ran = shell(command);
  for (int more = 0; more < 3 && ran.code == kBrokenPipe; ++more) ran = shell(command);
  return ran;
}

std::string rank_program() { return xoe::built_file("print_launch_info"); }

void expect_two_ranks(const Ran& ran, const std::string& launcher) {
  EXPECT_EQ(ran.code, 0) << ran.output;
  for (const char* place : {" rank 0 of 2 local 0 of 2 met", " rank 1 of 2 local 1 of 2 met"})
    EXPECT_THAT(ran.output, testing::HasSubstr(launcher + place));
}

constexpr const char* kOpenMpi = "timeout 60 mpirun.openmpi --allow-run-as-root --oversubscribe -np 2 ";

TEST(ForeignLaunchers, OpenMpi) {
  if (!installed("mpirun.openmpi")) GTEST_SKIP() << "Open MPI is not installed";
  expect_two_ranks(shell(kOpenMpi + rank_program()), "openmpi");
}

TEST(ForeignLaunchers, Mpich) {
  if (!installed("mpirun.mpich")) GTEST_SKIP() << "MPICH is not installed";
  expect_two_ranks(with_mpich("timeout 60 mpirun.mpich -np 2 " + rank_program()), "mpich");
}

// The shell stands between the launcher and the rank, a different one for each.
TEST(ForeignLaunchers, MpichThroughAShell) {
  if (!installed("mpirun.mpich")) GTEST_SKIP() << "MPICH is not installed";
  expect_two_ranks(with_mpich("timeout 60 mpirun.mpich -np 2 sh -c '" + rank_program() + "; exit $?'"), "mpich");
}

TEST(ForeignLaunchers, TwoJobsSideBySide) {
  if (!installed("mpirun.mpich")) GTEST_SKIP() << "MPICH is not installed";
  const std::string job = "timeout 60 mpirun.mpich -np 2 " + rank_program();
  const Ran ran = with_mpich("(" + job + ") & (" + job + ") & wait %1 && wait %2");
  EXPECT_EQ(ran.code, 0) << ran.output;
}

TEST(ForeignLaunchers, XoeRunInsideAnotherLauncherIsTheNearerOne) {
  if (!installed("mpirun.mpich")) GTEST_SKIP() << "MPICH is not installed";
  const std::string inner = xoe::built_command("xoe") + " run -np 2 " + rank_program();
  expect_two_ranks(with_mpich("timeout 60 mpirun.mpich -np 1 " + inner), "xoe");
}

}  // namespace
