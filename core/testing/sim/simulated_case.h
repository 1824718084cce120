// Cases of GoogleTest in virtual time.
#pragma once

#include <functional>

#include "core/testing/sim/simulation.h"

namespace xoe::sim {

// Runs the scenario in a process of its own, which ends with it: what it expects in vain fails the case.
void simulate_case(const std::function<void()>& scenario, const Options& options = {});

// Runs the body of a case as a program on one host, at 10.0.0.1: its threads, sockets and clocks are simulated.
void in_virtual_time(const std::function<void()>& body, const Options& options = {});

}  // namespace xoe::sim
