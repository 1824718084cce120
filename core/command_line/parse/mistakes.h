// Mistakes on a command line, each told in one line that says what to write instead.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xoe::tools {

// What a look over the words of a command line finds, before any of them is taken.
struct Survey {
  enum class Request : std::uint8_t { kNothing, kHelp, kVersion, kDescription };
  const CLI::App* app = nullptr;  // the verb that the words name, or the program
  Request request = Request::kNothing;
  std::string mistake = {};  // an unknown verb or option, a value that is missing, a word too many
};
Survey look_over(const CLI::App& program, const std::vector<std::string_view>& words);

// Of the mistakes that only parsing finds.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace xoe::tools
