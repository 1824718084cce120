// The verbs of `xoe data`, each in a file of its own.
#pragma once

#include <CLI/CLI.hpp>

namespace xoe::tools {

// Add the verb. When it is on the command line it runs within parse(): it prints, errors to stderr, and sets the
// program's exit code.
void add_make(CLI::App& app, int& code);
void add_convert(CLI::App& app, int& code);
void add_inspect(CLI::App& app, int& code);
void add_verify(CLI::App& app, int& code);
void add_stats(CLI::App& app, int& code);
void add_index(CLI::App& app, int& code);

}  // namespace xoe::tools
