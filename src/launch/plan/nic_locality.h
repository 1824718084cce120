// Which memory a network interface is near, from sysfs.
#pragma once

#include <string>

namespace xoe::launch {

// -1: not known. `net`: /sys/class/net; tests give a recorded one. A bond, bridge or VLAN has the node that all
// interfaces below it share.
int numa_node_of_interface(const std::string& name, const std::string& net);

}  // namespace xoe::launch
