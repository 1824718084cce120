// What the kernel says of the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xoe {

// The first line of a file of /proc or /sys; nullopt when it cannot be read or is empty.
std::optional<std::string> read_line(const std::string& path);
// The number of the line "KEY  1234 kB" of a file of /proc, in bytes; 0 when there is none.
std::uint64_t read_kilobytes(const std::string& path, std::string_view key);
// Memory that programs can have without swapping; 0: the kernel does not say.
std::uint64_t available_memory_bytes();
// Processors of time that this process's container may use; nullopt: no limit.
std::optional<double> cpu_quota();

}  // namespace xoe
