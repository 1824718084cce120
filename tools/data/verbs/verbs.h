// The verbs of `xoe data`, each in a file of its own.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

namespace xoe::tools {

// Adds a verb. If the command line names it, parse() runs it: it prints its result, errors to stderr, and sets the
// program's exit code.
void add_make(CLI::App& app, int& code);
void add_convert(CLI::App& app, int& code);
void add_inspect(CLI::App& app, int& code);
void add_verify(CLI::App& app, int& code);
void add_stats(CLI::App& app, int& code);
void add_index(CLI::App& app, int& code);
void add_bench(CLI::App& app, int& code);
void add_compare(CLI::App& app, int& code);

// "--split train" or "--split validation".
inline void add_split_option(CLI::App& verb, bool& training) {
  verb.add_option("--split", training, "train or validation (default: train)")
      ->transform(CLI::Transformer(std::map<std::string, bool>{{"train", true}, {"validation", false}}))
      ->option_text("SPLIT");
}

inline void add_missing_option(CLI::App& verb, bool& allow_missing) {
  verb.add_flag("--allow-missing", allow_missing, "go on without files that should be there and are not");
}

}  // namespace xoe::tools
