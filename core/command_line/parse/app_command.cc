#include "core/command_line/parse/app_command.h"

#include <cctype>

#include "core/base/text.h"

namespace xoe::tools {
namespace {

// "INT:POSITIVE" to "INT"
std::string base_type(const CLI::Option& option) {
  std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

// What stands for the value in the help.
std::string placeholder(const CLI::Option& option) {
  if (!option.get_option_text().empty()) return option.get_option_text();
  const std::string type = base_type(option);
  if (type == "INT" || type == "UINT") return "N";
  if (type == "FLOAT") return "X";
  return type.find('|') == std::string::npos ? type : "NAME";
}

// "sgd|adamw" are values, "N|auto" are not all of them.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = base_type(option);
  const bool values = type.find('|') != std::string::npos && std::isupper(static_cast<unsigned char>(type[0])) == 0;
  return values ? split_text(type, '|') : std::vector<std::string>();
}

command_line::Argument argument_of(const CLI::Option& option) {
  command_line::Argument argument{.what = option.get_description(),
                                  .required = option.get_required(),
                                  .repeated = option.get_items_expected_max() > 1 && option.get_positional()};
  argument.names = option.get_positional() ? std::vector{option.get_name(true, false)} : names_of(option);
  if (option.get_group() != "Options") argument.group = option.get_group();
  if (!takes_value(option)) return argument;
  argument.value = option.get_positional() ? argument.names.front() : placeholder(option);
  argument.choices = choices_of(option);
  if (!option.get_positional()) argument.fallback = option.get_default_str();
  return argument;
}

}  // namespace

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : full_name(*app.get_parent()) + " " + app.get_name();
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_positional() && !option->get_group().empty()) options.push_back(option);
  return options;
}

std::vector<const CLI::Option*> operands_of(const CLI::App& app) {
  std::vector<const CLI::Option*> operands;
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional()) operands.push_back(option);
  return operands;
}

command_line::Command command_of(const CLI::App& app) {
  command_line::Command command{.name = full_name(app), .what = app.get_description(), .footer = app.get_footer()};
  const CLI::Option* const help = app.get_help_ptr();
  for (const CLI::Option* operand : operands_of(app)) command.operands.push_back(argument_of(*operand));
  for (const CLI::Option* option : options_of(app))
    if (option != help) command.options.push_back(argument_of(*option));
  const std::string last = command.options.empty() ? "" : command.options.back().group;
  command.options.push_back({.names = {"-h", "--help"}, .what = "print this help", .group = last});
  command.options.push_back({.names = {"--version"}, .what = "print the version of Xoe", .group = last});
  for (const CLI::App* verb : app.get_subcommands({}))
    if (!verb->get_group().empty()) command.verbs.push_back(command_of(*verb));
  return command;
}

}  // namespace xoe::tools
