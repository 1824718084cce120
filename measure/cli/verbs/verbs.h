// The verbs of `xoe bench`, each in a file of its own.
#pragma once

#include <CLI/CLI.hpp>

#include "xoe/status.h"

namespace xoe::bench {

inline constexpr int kFailed = 1;

// Each adds its verb to the program. Once the command line is understood, it does the work and sets the program's exit
// code. `argv`: the words of the whole command line, of which a verb may make another's.
using AddVerb = void (*)(CLI::App& app, char** argv, int& code);

void add_train(CLI::App& app, char** argv, int& code);
void add_collectives(CLI::App& app, char** argv, int& code);
void add_compare(CLI::App& app, char** argv, int& code);
void add_scale(CLI::App& app, char** argv, int& code);
void add_predict(CLI::App& app, char** argv, int& code);
void add_failures(CLI::App& app, char** argv, int& code);
void add_isolate(CLI::App& app, char** argv, int& code);

// `unsupported`: this Xoe was built without libtorch, which `xoe bench train` needs.
Status has_train();

// Says on standard error what failed: "xoe bench VERB: ...". The exit code.
int failed(std::string_view verb, const Error& error);

}  // namespace xoe::bench
