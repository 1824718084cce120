// The option of programs that says how many bad images are left out.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>

namespace xoe::tools {

// --max-bad, and the names that it had before.
inline void add_max_bad_option(CLI::App& app, std::int64_t& max_bad, const std::string& description) {
  for (const char* name : {"--max-bad", "--max-bad-images", "--skip-bad"}) {
    CLI::Option* const option = app.add_option(name, max_bad, description)->check(CLI::NonNegativeNumber);
    if (std::string(name) == "--max-bad")
      option->default_str("0");
    else
      option->group("");  // not in the help
  }
}

}  // namespace xoe::tools
