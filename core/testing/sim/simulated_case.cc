#include "core/testing/sim/simulated_case.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace xoe::sim {
namespace {

constexpr Time kLongestCase = 3600 * kSecond;

// Before main(), so that a case is the same each time.
[[maybe_unused]] const bool kAddressesAreFixed = [] {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words;
  for (std::size_t at = 0; at < all.size(); at = all.find('\0', at) + 1) words.emplace_back(all.c_str() + at);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  fix_addresses(argv.data());
  return true;
}();

}  // namespace

void simulate_case(const std::function<void()>& scenario, const Options& options) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    simulate(options, [&] {
      scenario();
      return 0;
    });
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0) << "see above";
}

void in_virtual_time(const std::function<void()>& body, const Options& options) {
  simulate_case(
      [&] {
        add_program("case", [&](int, char**) {
          body();
          return 0;
        });
        const Host host = add_host("here", "10.0.0.1");
        const pid_t program = host.start({"/sim/case"});
        EXPECT_TRUE(wait_for_end(program, kLongestCase)) << "the case makes no end";
        EXPECT_EQ(facts_of(program).status, 0);
        if (testing::Test::HasFailure()) std::printf("%s", host.output().c_str());
      },
      options);
}

}  // namespace xoe::sim
