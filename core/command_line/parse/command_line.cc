#include "core/command_line/parse/command_line.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>

#include "core/base/error.h"
#include "core/base/nearest_word.h"
#include "core/command_line/help.h"
#include "core/command_line/parse/app_command.h"
#include "core/command_line/parse/mistakes.h"
#include "core/command_line/version.h"

namespace xoe::tools {
namespace {

constexpr int kFailed = 1;

Answer mistake(const CLI::App& app, std::string_view what) {
  return {.code = kUsageError, .text = fmt::format("{}: {}\n", full_name(app), what)};
}

// A program prints nothing before its command line is understood, so these may stand anywhere on it.
std::optional<Answer> answer_request(const CLI::App& app, const Survey& survey) {
  switch (survey.request) {
    case Survey::Request::kNothing: return std::nullopt;
    case Survey::Request::kHelp: return Answer{.text = command_line::help_text(command_of(app))};
    case Survey::Request::kVersion: return Answer{.text = fmt::format("xoe {}\n", command_line::version())};
    case Survey::Request::kDescription: return Answer{.text = command_line::encode(command_of(app))};
  }
  return std::nullopt;
}

// The parser would read 010 as eight and 0x10 as sixteen. Empty: `text` is decimal, without leading zeros now.
std::string read_as_decimal(std::string& text) {
  const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const std::string_view digits = std::string_view(text).substr(sign);
  const auto is_digit = [digits](std::size_t at) { return std::isdigit(static_cast<unsigned char>(digits[at])) != 0; };
  if (digits.empty() || !is_digit(0)) return "not a decimal number";
  if (digits.size() < 2 || digits.front() != '0') return {};
  if (!is_digit(1)) return "not a decimal number";
  text.erase(sign, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return {};
}

// And -1 of an unsigned number as the largest there is.
std::string read_as_unsigned_decimal(std::string& text) {
  return text.starts_with('-') ? "less than 0" : read_as_decimal(text);
}

void take_only_decimal_numbers(CLI::App& app) {
  const CLI::Validator decimal(read_as_decimal, "");
  const CLI::Validator unsigned_decimal(read_as_unsigned_decimal, "");
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("INT")) option->transform(decimal);
    if (type.starts_with("UINT")) option->transform(unsigned_decimal);
  }
  for (CLI::App* verb : app.get_subcommands({})) take_only_decimal_numbers(*verb);
}

constexpr const char* kProgram = "PROGRAM";
constexpr char kNoList = '\1';

// CLI11 takes "[a, b]" for a list, but not with another character before it, which add_program() takes away again.
std::vector<std::string> without_lists(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> words(argv, argv + argc);
  if (app.get_option_no_throw(kProgram) == nullptr) return words;
  for (auto word = std::ranges::find(words, "--"); word != words.end(); ++word)
    if (word->starts_with('[') || word->starts_with(kNoList)) word->insert(word->begin(), kNoList);
  return words;
}

}  // namespace

std::optional<Answer> understand(CLI::App& app, int argc, const char* const* argv) {
  const Survey seen = look_over(app, {argv + 1, argv + argc});
  if (auto answer = answer_request(*seen.app, seen)) return answer;
  if (!seen.mistake.empty()) return mistake(*seen.app, seen.mistake);
  take_only_decimal_numbers(app);
  const std::vector<std::string> words = without_lists(*seen.app, argc, argv);
  std::vector<const char*> given;
  for (const std::string& word : words) given.push_back(word.c_str());
  try {
    app.parse(argc, given.data());
  } catch (const CLI::ParseError& error) {
    return mistake(*seen.app, explain(*seen.app, error));
  }
  return std::nullopt;
}

int tell(const Answer& answer) {
  std::FILE* const stream = answer.code == 0 ? stdout : stderr;
  std::fwrite(answer.text.data(), 1, answer.text.size(), stream);
  if (std::fflush(stream) == 0 || answer.code != 0) return answer.code;
  fmt::print(stderr, "xoe: cannot write the output: {}\n", errno_text(errno));
  return kFailed;
}

CLI::Option* add_program(CLI::App& app, std::vector<std::string>& words, const std::string& what) {
  const auto as_given = [](std::string word) {
    if (word.starts_with(kNoList)) word.erase(0, 1);
    return word;
  };
  return app.add_option(kProgram, words, what)->required()->transform(as_given);
}

std::string wrong_choice(std::string_view option, std::string_view value, const std::vector<std::string>& choices) {
  const std::vector<std::string_view> words(choices.begin(), choices.end());
  return fmt::format("{} {}: expected {}{}", option, value, command_line::one_of(choices), did_you_mean(value, words));
}

CLI::Option* add_choice(CLI::App& app, const std::string& names, std::string& value,
                        const std::vector<std::string>& choices, const std::string& what) {
  std::vector<std::pair<std::string, std::string>> pairs;
  pairs.reserve(choices.size());
  for (const std::string& choice : choices) pairs.emplace_back(choice, choice);
  return add_choice<std::string>(app, names, value, std::move(pairs), what);
}

}  // namespace xoe::tools
