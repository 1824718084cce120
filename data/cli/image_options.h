// The option about bad images, which programs share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace xoe::tools {

// --max-bad, and the names that it had before.
void add_max_bad_option(CLI::App& app, std::int64_t& max_bad, const std::string& description);

}  // namespace xoe::tools
