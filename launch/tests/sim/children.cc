#include "launch/remote/children.h"

#include "core/testing/sim/simulation.h"

namespace xoe::remote {

std::vector<pid_t> children_of_this_process() { return sim::children_of_caller(); }
bool is_exiting(pid_t child) { return sim::is_ending(child); }

}  // namespace xoe::remote
