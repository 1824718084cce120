#include "launch/tests/sim/programs.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "core/command_line/version.h"
#include "launch/agents/agent.h"
#include "launch/cli/run.h"

namespace xoe::launch::sim_tests {

int xoe_program(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (words.at(0) == "agent") return run_agent(std::string(command_line::version()));
  return tools::run(std::span(words).subspan(1));
}

// A file in memory.
std::string write_secret(std::string_view secret) {
  const int fd = ::memfd_create("secret", 0);
  if (fd < 0 || ::write(fd, secret.data(), secret.size()) != std::ssize(secret) || ::fchmod(fd, 0600) != 0)
    std::abort();
  return fmt::format("/proc/self/fd/{}", fd);
}

}  // namespace xoe::launch::sim_tests
