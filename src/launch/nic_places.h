// Which memory a network interface is near, from sysfs.
#pragma once

#include <string>

namespace xoe::launch {

// -1: not known. `net`: /sys/class/net; a test gives a recorded tree. A bond, bridge or VLAN is near what all that is
// below it is near.
int numa_node_of_interface(const std::string& name, const std::string& net);

}  // namespace xoe::launch
