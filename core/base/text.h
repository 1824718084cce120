// Parsing and printing of small values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xoe {

// Parse the whole text: "12" is 12, "12x" and "" are nullopt.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_number(std::string_view text);
// "64K", "1.5MiB", "512" to bytes; suffixes are powers of 1024.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

std::vector<std::string> split_text(std::string_view text, char separator);
// Without the blanks, tabs and line ends around it.
std::string_view trimmed(std::string_view text);
// The parts between blanks, tabs and line ends.
std::vector<std::string> words_of(std::string_view text);
// "2(x3),1", as Slurm writes it, to {2, 2, 2, 1}: at most 65536 counts of up to 2^20.
std::optional<std::vector<int>> expand_counts(std::string_view text);

// "1 thread", "2 threads", "2 classes"
std::string counted(std::int64_t count, std::string_view noun);
std::string human_bytes(std::uint64_t bytes);  // "1.5 MiB"
std::string human_seconds(double seconds);     // "30 s", "250 ms"
std::string human_seconds(std::chrono::nanoseconds time);

}  // namespace xoe
