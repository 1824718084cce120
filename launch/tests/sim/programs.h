// The programs of simulated hosts.
#pragma once

#include <string>
#include <string_view>

namespace xoe::launch::sim_tests {

// `xoe`, of which simulated hosts have `run` and `agent`.
int xoe_program(int argc, char** argv);

// The path of a file with this secret, which all members that a simulation starts can read.
std::string write_secret(std::string_view secret = "a secret that only the simulated members know");

}  // namespace xoe::launch::sim_tests
