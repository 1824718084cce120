#include "core/command_line/help.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::command_line {
namespace {

constexpr std::size_t kColumn = 26;  // where descriptions begin
constexpr std::size_t kShortChoices = 20;

// "-v, --verbose", "--optimizer sgd|adamw"
std::string left_side(const Argument& argument) {
  std::string left = fmt::format("{}", fmt::join(argument.names, ", "));
  const std::string choices = fmt::format("{}", fmt::join(argument.choices, "|"));
  if (!argument.value.empty())
    left += " " + (choices.empty() || choices.size() > kShortChoices ? argument.value : choices);
  return left;
}

std::string right_side(const Argument& argument) {
  std::string right = fmt::format("{}", fmt::join(argument.choices, ", "));
  if (right.size() <= kShortChoices) right.clear();
  right += fmt::format("{}{}", right.empty() || argument.what.empty() ? "" : ": ", argument.what);
  if (!argument.fallback.empty()) right += fmt::format("{}(default: {})", right.empty() ? "" : " ", argument.fallback);
  return right;
}

void add_row(std::string_view left, std::string_view right, std::string& out) {
  std::string line = fmt::format("  {}", left);
  if (line.size() + 2 > kColumn) {
    out += line + "\n";
    if (right.empty()) return;
    line.clear();
  }
  line.resize(kColumn, ' ');
  line = wrapped(line + std::string(right), kColumn);
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + "\n";
}

void add_options(const std::vector<Argument>& options, std::string& out) {
  std::vector<std::string> groups;
  for (const Argument& option : options)
    if (std::ranges::find(groups, option.group) == groups.end()) groups.push_back(option.group);
  for (const std::string& group : groups) {
    out += fmt::format("\n{}:\n", group.empty() ? "Options" : group);
    for (const Argument& option : options)
      if (option.group == group) add_row(left_side(option), right_side(option), out);
  }
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t indent) {
  std::string out;
  std::string line(text);
  while (line.size() > kWidth) {
    auto cut = line.rfind(' ', kWidth);
    // A word that is longer than a line stays whole.
    if (cut == std::string::npos || cut <= line.find_first_not_of(' ')) cut = line.find(' ', kWidth);
    if (cut == std::string::npos) break;
    out += line.substr(0, cut) + "\n";
    line = std::string(indent, ' ') + line.substr(cut + 1);
  }
  return out + line;
}

std::string usage_of(const Command& command) {
  if (!command.usage.empty()) return command.usage;
  // With options of its own besides --help and --version it does something without a verb, too.
  constexpr std::size_t kCommonOptions = 2;
  if (!command.verbs.empty())
    return command.options.size() > kCommonOptions ? "[options], or VERB [options]" : "VERB [options]";
  std::string usage = "[options]";
  for (const Argument& operand : command.operands) {
    const std::string name = operand.names.front() + (operand.repeated ? "..." : "");
    usage += operand.required ? " " + name : fmt::format(" [{}]", name);
  }
  return usage;
}

std::string help_text(const Command& command) {
  std::string out = wrapped(fmt::format("{}: {}", command.name, command.what), 0);
  out += fmt::format("\n\nUsage: {} {}\n", command.name, usage_of(command));
  if (!command.verbs.empty()) out += "\nVerbs:\n";
  for (const Command& verb : command.verbs) add_row(verb.name.substr(command.name.size() + 1), verb.what, out);
  if (!command.operands.empty()) out += "\nOperands:\n";
  for (const Argument& operand : command.operands) add_row(operand.names.front(), right_side(operand), out);
  add_options(command.options, out);
  if (!command.footer.empty()) out += "\n";
  for (const std::string& line : split_text(trimmed(command.footer), '\n'))
    if (!command.footer.empty()) out += wrapped(line, std::min(line.find_first_not_of(' '), line.size())) + "\n";
  return out;
}

}  // namespace xoe::command_line
