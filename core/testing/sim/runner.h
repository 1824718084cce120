// The command line of a program that simulates many seeds, each in a process of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace xoe::sim {

// What became of one seed.
struct Outcome {
  std::vector<std::string> problems;
  std::string story;       // what happened, for people
  std::size_t events = 0;  // of the seed's schedule: each may be left out
};

struct Suite {
  std::string name;       // of the program
  std::string describes;  // a sentence for --help
  double hangs = 300;     // seconds that a seed may take
  // Simulates a seed without these events of its schedule. Runs in a process of its own, which ends afterwards.
  std::function<Outcome(std::uint64_t seed, const std::set<std::size_t>& without)> run;
};

// Exit code 0: no seed has a problem; 1: one has; 2: a wrong word.
int run_suite(int argc, char** argv, const Suite& suite);

}  // namespace xoe::sim
