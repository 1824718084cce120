// What the kernel says of the machine.
#pragma once

#include <optional>
#include <string>

namespace xoe {

// The first line of a file of /proc or /sys; nullopt when it cannot be read or is empty.
std::optional<std::string> read_line(const std::string& path);
// Processors of time that this process's container may use; nullopt: no limit.
std::optional<double> cpu_quota();

}  // namespace xoe
