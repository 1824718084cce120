// What `xoe notice` says of a machine that is to be taken away, and its reader takes.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace xoe::notice {

using Time = std::chrono::system_clock::time_point;

// This machine will be gone.
struct Departure {
  Time at = {};          // not later
  std::string why = {};  // a printable line
};

// A line of `xoe notice`: "SECONDS WHY", as its reader has it. A number that is out of bounds is taken to them.
std::string notice_line(const Departure& departure, Time now);
// nullopt: it is no such line.
struct Notice {
  std::chrono::milliseconds left = {};
  std::string why = {};
};
std::optional<Notice> parse_notice_line(std::string_view line);

}  // namespace xoe::notice
