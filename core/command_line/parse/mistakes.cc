#include "core/command_line/parse/mistakes.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/nearest_word.h"
#include "core/base/text.h"
#include "core/command_line/command.h"
#include "core/command_line/help.h"
#include "core/command_line/parse/app_command.h"

namespace xoe::tools {
namespace {

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  std::vector<const CLI::App*> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb);
  return verbs;
}

std::vector<std::string> shown_verbs(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : verbs_of(app))
    if (!verb->get_group().empty()) names.push_back(verb->get_name());
  return names;
}

std::string see_help(const CLI::App& app) { return fmt::format("; see {} --help", full_name(app)); }

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates, const CLI::App& app) {
  const std::vector<std::string_view> views(candidates.begin(), candidates.end());
  return did_you_mean(word, views, see_help(app));
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names = {"--help", "--version"};
  for (const CLI::Option* option : options_of(app))
    for (std::string& name : names_of(*option)) names.push_back(std::move(name));
  return names;
}

// Also of options that the help does not show.
std::vector<std::string> all_option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (std::string& name : names_of(*option)) names.push_back(std::move(name));
  return names;
}

const CLI::Option* find_option(const CLI::App& app, std::string_view name) {
  if (name == "-h" || name == "--help") return app.get_help_ptr();
  for (const CLI::Option* option : app.get_options()) {
    const auto names = names_of(*option);
    if (std::ranges::find(names, name) != names.end()) return option;
  }
  return nullptr;
}

bool is_number(std::string_view word) { return parse_number(word).has_value(); }

// The parser takes --flag=VALUE for these.
bool is_switch(std::string_view value) {
  static constexpr std::string_view kSwitches[] = {"true", "false", "on", "off", "yes", "no", "1", "0"};
  return std::ranges::find(kSwitches, value) != std::end(kSwitches);
}

// Goes over the words as the parser does, but takes nothing.
class Look {
 public:
  Look(const CLI::App& program, const std::vector<std::string_view>& words) : words_(words) { found_.app = &program; }

  Survey over() {
    while (at_ < words_.size() && found_.mistake.empty() && found_.request == Survey::Request::kNothing) {
      const std::string_view word = words_[at_++];
      if (word == "--") break;
      if (word.size() > 1 && word.starts_with('-') && !is_number(word))
        look_at_option(word);
      else
        look_at_word(word);
    }
    if (found_.mistake.empty() && found_.request == Survey::Request::kNothing) look_for_verb();
    return std::move(found_);
  }

 private:
  const CLI::App& app() const { return *found_.app; }

  void look_at_option(std::string_view word) {
    using Request = Survey::Request;
    if (word == "-h" || word == "--help") return set(Request::kHelp);
    if (word == "--version") return set(Request::kVersion);
    if (word == command_line::kDescribe) return set(Request::kDescription);
    const bool is_long = word.starts_with("--");
    const auto equals = word.find('=');
    const std::string_view name = is_long ? word.substr(0, equals) : word.substr(0, 2);
    const CLI::Option* option = find_option(app(), name);
    if (option == nullptr) {
      found_.mistake = unknown_option(is_long ? name : word);
    } else if (takes_value(*option)) {
      if (!is_long && word.size() > 2) return;  // -vVALUE
      if (equals == std::string_view::npos) {
        look_at_value(name);
        pass_over_more_values(*option);
      }
      count(*option, name);
    } else if (is_long && equals != std::string_view::npos && !is_switch(word.substr(equals + 1))) {
      found_.mistake = fmt::format("{} takes no value{}", name, see_help(app()));
    }
  }

  void set(Survey::Request request) { found_.request = request; }

  void look_at_value(std::string_view name) {
    if (at_ == words_.size()) {
      found_.mistake = fmt::format("{} needs a value{}", name, see_help(app()));
      return;
    }
    const std::string_view value = words_[at_++];
    if (value.starts_with("--") && find_option(app(), value.substr(0, value.find('='))) != nullptr)
      found_.mistake = fmt::format("{} needs a value, but {}, an option, follows it", name, value);
  }

  // An option of several values takes all words up to the next option or verb, as the parser does.
  void pass_over_more_values(const CLI::Option& option) {
    if (option.get_items_expected_max() == 1 || !option.get_allow_extra_args()) return;
    const auto verbs = verbs_of(app());
    const auto is_value = [&verbs](std::string_view word) {
      return !word.starts_with('-') &&
             std::ranges::none_of(verbs, [word](const CLI::App* verb) { return verb->get_name() == word; });
    };
    while (at_ < words_.size() && is_value(words_[at_])) ++at_;
  }

  void count(const CLI::Option& option, std::string_view name) {
    const bool once =
        option.get_items_expected_max() == 1 && option.get_multi_option_policy() == CLI::MultiOptionPolicy::Throw;
    if (once && std::ranges::find(given_, &option) != given_.end() && found_.mistake.empty())
      found_.mistake = fmt::format("{} is given twice", name);
    given_.push_back(&option);
  }

  std::string unknown_option(std::string_view name) const {
    for (const CLI::App* verb : verbs_of(app()))
      if (find_option(*verb, name) != nullptr)
        return fmt::format("{0} is an option of verbs, {1} {2} for example: write it behind the verb", name,
                           full_name(app()), verb->get_name());
    const std::vector<std::string> shown = option_names(app());
    const std::string near = did_you_mean(name, std::vector<std::string_view>(shown.begin(), shown.end()));
    return fmt::format("unknown option {}{}", name,
                       near.empty() ? suggestion(name, all_option_names(app()), app()) : near);
  }

  void look_at_word(std::string_view word) {
    const auto verbs = verbs_of(app());
    const auto verb = std::ranges::find_if(verbs, [word](const CLI::App* one) { return one->get_name() == word; });
    if (verb != verbs.end()) {
      found_.app = *verb;
      return;
    }
    if (app().get_require_subcommand_min() > 0) {
      found_.mistake = fmt::format("unknown verb \"{}\"{}", word, suggestion(word, shown_verbs(app()), app()));
      return;
    }
    std::int64_t most = 0;
    for (const CLI::Option* operand : operands_of(app())) most += operand->get_items_expected_max();
    if (++operands_ <= most) return;
    const auto names = shown_verbs(app());
    const auto verb_meant = did_you_mean(word, std::vector<std::string_view>(names.begin(), names.end()));
    found_.mistake =
        fmt::format("unexpected word \"{}\"{}", word,
                    verb_meant.empty() ? suggestion("--" + std::string(word), option_names(app()), app()) : verb_meant);
  }

  void look_for_verb() {
    if (app().get_require_subcommand_min() == 0) return;
    found_.mistake = fmt::format("say what to do: {}{}", command_line::one_of(shown_verbs(app())), see_help(app()));
  }

  const std::vector<std::string_view>& words_;
  Survey found_;
  std::size_t at_ = 0;
  std::int64_t operands_ = 0;
  std::vector<const CLI::Option*> given_;
};

// What the types and checks of an option ask for: "a whole number from 1 to 65535".
std::string expected(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const bool whole = type.starts_with("INT") || type.starts_with("UINT");
  std::string text = whole ? "a whole number" : "a number";
  if (type.find("NONNEGATIVE") != std::string::npos || type == "UINT") return text + ", 0 or more";
  if (type.find("POSITIVE") != std::string::npos) return text + (whole ? ", 1 or more" : " above 0");
  const auto from = type.find(" in [");
  const auto to = type.find(" - ", from);
  const auto end = type.find(']', from);
  if (from == std::string::npos || to == std::string::npos || end == std::string::npos) return text;
  return fmt::format("{} from {} to {}", text, type.substr(from + 5, to - from - 5), type.substr(to + 3, end - to - 3));
}

bool is_numeric(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
}

// The option that a message of the parser begins with or ends with, and what was given for it.
const CLI::Option* option_in(const CLI::App& app, std::string_view message) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (message.starts_with(name + ":") || message.find(": " + name + " = ") != std::string_view::npos) return option;
  }
  return nullptr;
}

std::string explain_value(const CLI::App& app, std::string_view message) {
  const CLI::Option* const option = option_in(app, message);
  if (option == nullptr) return std::string(message);
  const std::string name = option->get_name();
  const std::string given = fmt::format("{}", fmt::join(option->results(), ","));
  if (!takes_value(*option)) return fmt::format("{} takes no value, not {}", name, given);
  if (is_numeric(*option)) return fmt::format("{} {}: expected {}", name, given, expected(*option));
  if (!message.starts_with(name)) return fmt::format("{}: cannot understand {}", name, given);
  return std::string(message);
}

// "--epochs" out of "--steps excludes --epochs"
std::string_view last_word(std::string_view message) { return message.substr(message.rfind(' ') + 1); }
std::string_view first_word(std::string_view message) { return message.substr(0, message.find(' ')); }

}  // namespace

Survey look_over(const CLI::App& program, const std::vector<std::string_view>& words) {
  return Look(program, words).over();
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const std::string_view message = error.what();
  switch (static_cast<CLI::ExitCodes>(error.get_exit_code())) {
    case CLI::ExitCodes::RequiredError:
      return fmt::format("{} is missing; usage: {} {}", first_word(message), full_name(app),
                         command_line::usage_of(command_of(app)));
    case CLI::ExitCodes::ExcludesError:
      return fmt::format("{} and {} exclude each other; give one of them", first_word(message), last_word(message));
    case CLI::ExitCodes::RequiresError: return fmt::format("{} needs {}, too", first_word(message), last_word(message));
    case CLI::ExitCodes::ConversionError:
    case CLI::ExitCodes::ValidationError: return explain_value(app, message);
    default: return std::string(message);
  }
}

}  // namespace xoe::tools
