// How many CPUs this process may use.
#pragma once

#include <string>

namespace xoe::data {

// This process's share among `processes` on the host of what they were given together: the CPUs that its parent may run
// on, or, where it is bound to fewer than those, its own CPUs undivided; no more than its share of the quotas of its
// control groups (v2, and v1's cpu controller). At least 1.
// `root` stands in for / in tests, where the control groups' files lie.
int given_cpus(int processes, const std::string& root = "");

}  // namespace xoe::data
