// What the user asked `xoe run` for.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace xoe::launch {

enum class Binding : std::uint8_t { kNone, kCore, kSocket };

struct RunOptions {
  int size = 0;
  Binding binding = Binding::kNone;
  std::string output_dir = {};  // empty: no files
  bool tag_output = true;
  bool color = true;                                         // of the tags, on a terminal
  std::optional<std::chrono::nanoseconds> timeout = {};      // of the whole job
  std::chrono::nanoseconds grace = std::chrono::seconds(5);  // between SIGTERM and SIGKILL
  std::vector<std::pair<std::string, std::string>> env = {};
  std::vector<std::string> command = {};  // program and its arguments
};

}  // namespace xoe::launch
