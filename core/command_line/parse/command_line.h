// How every program of Xoe understands its command line, answers --help and --version, and tells of a mistake.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/command_line/command.h"

namespace xoe::tools {

using command_line::kUsageError;

// What a program says instead of doing its work.
struct Answer {
  int code = 0;           // 0: for stdout, otherwise for stderr
  std::string text = {};  // of a mistake: one line
};

// Parses; nullopt: go on. The callbacks of verbs run meanwhile.
std::optional<Answer> understand(CLI::App& app, int argc, const char* const* argv);
// Prints the answer and returns its code.
int tell(const Answer& answer);

// `NAME: choose a, b or c, not VALUE; did you mean b?`
std::string wrong_choice(std::string_view option, std::string_view value, const std::vector<std::string>& choices);

// An option with one of a few values.
template <class T>
CLI::Option* add_choice(CLI::App& app, const std::string& names, T& value,
                        std::vector<std::pair<std::string, T>> choices, const std::string& what) {
  std::vector<std::string> words;
  std::string now;
  for (const auto& [word, meaning] : choices) {
    words.push_back(word);
    if (meaning == value) now = word;
  }
  const std::string name = names.substr(0, names.find(','));
  const auto set = [&value, name, words, choices = std::move(choices)](const std::string& given) {
    for (const auto& [word, meaning] : choices)
      if (word == given) {
        value = meaning;
        return;
      }
    throw CLI::ValidationError(wrong_choice(name, given, words), CLI::ExitCodes::ValidationError);
  };
  return app.add_option_function<std::string>(names, set, what)
      ->type_name(CLI::detail::join(words, "|"))
      ->default_str(now);
}

// The same where the choices are their own meaning.
CLI::Option* add_choice(CLI::App& app, const std::string& names, std::string& value,
                        const std::vector<std::string>& choices, const std::string& what);

// A value whose help tells what it is now as the default.
template <class T>
CLI::Option* add_setting(CLI::App& app, const std::string& names, T& value, const std::string& what) {
  return app.add_option(names, value, what)->capture_default_str();
}

// The same of a number from `low` to `high`.
template <class T>
CLI::Option* add_number(CLI::App& app, const std::string& names, T& value, std::type_identity_t<T> low,
                        std::type_identity_t<T> high, const std::string& what) {
  return add_setting(app, names, value, what)->check(CLI::Range(low, high));
}

// The words of another program's command line, after --, as they are.
CLI::Option* add_program(CLI::App& app, std::vector<std::string>& words, const std::string& what);

// Values in one word, separated by commas.
template <class T>
CLI::Option* add_list(CLI::App& app, const std::string& names, std::vector<T>& values, const std::string& what) {
  return app.add_option(names, values, what)->delimiter(',')->allow_extra_args(false);
}

}  // namespace xoe::tools
