// Files of /proc and /sys, and what they say of the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xoe {

// At most `most` bytes of a file; nullopt, with errno, when it cannot be read. Never blocks on a FIFO or a device.
std::optional<std::string> read_start(const std::string& path, std::size_t most);
// The first line of a file of /proc or /sys; nullopt when it cannot be read or is empty.
std::optional<std::string> read_line(const std::string& path);
// The number of the line "KEY  1234 kB" of a file of /proc, in bytes; 0 when there is none.
std::uint64_t read_kilobytes(const std::string& path, std::string_view key);
// This machine's name in its network; `otherwise` if it cannot be read.
std::string host_name(std::string_view otherwise = {});
// Another text for each start of each machine, and for each container with a network name of its own; empty: not known.
std::string machine_identity();
// The part of it that all containers share between two starts of the machine.
std::string_view start_of_machine(std::string_view identity);
// Memory that programs can allocate without swapping; 0: not known.
std::uint64_t available_memory_bytes();

}  // namespace xoe
