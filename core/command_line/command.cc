#include "core/command_line/command.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::command_line {
namespace {

// Tabs and line ends separate the fields.
std::string field(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](char c) { return c == '\t' || c == '\n'; }, ' ');
  return out;
}

void encode_argument(std::string_view kind, const Argument& argument, std::string& out) {
  out += fmt::format("{}\t{}\t{}\t{}\t{}\n", kind, fmt::join(argument.names, " "), field(argument.value),
                     fmt::join(argument.choices, " "), field(argument.what));
}

void encode_to(const Command& command, std::string& out) {
  out += fmt::format("command\t{}\t{}\n", field(command.name), field(command.what));
  for (const Argument& operand : command.operands) encode_argument("operand", operand, out);
  for (const Argument& option : command.options) encode_argument("option", option, out);
  for (const Command& verb : command.verbs) encode_to(verb, out);
}

// `root` or one of its verbs: the command that the next lines belong to.
Command& add_command(Command& root, std::string name, std::string what) {
  Command& command = root.name.empty() ? root : root.verbs.emplace_back();
  command.name = std::move(name);
  command.what = std::move(what);
  return command;
}

}  // namespace

std::string one_of(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
  return out;
}

std::string encode(const Command& command) {
  std::string out;
  encode_to(command, out);
  return out;
}

Result<Command> decode(std::string_view text) {
  Command root;
  Command* current = nullptr;
  for (const std::string& line : split_text(text, '\n')) {
    if (line.empty()) continue;
    const auto fields = split_text(line, '\t');
    if (fields.size() == 3 && fields[0] == "command") {
      current = &add_command(root, fields[1], fields[2]);
      continue;
    }
    const bool operand = fields[0] == "operand";
    if (current == nullptr || fields.size() != 5 || (!operand && fields[0] != "option"))
      return failure(Code::kDataLoss, "not the description of a command line: \"{}\"", line);
    (operand ? current->operands : current->options)
        .push_back(
            {.names = words_of(fields[1]), .value = fields[2], .choices = words_of(fields[3]), .what = fields[4]});
  }
  if (current == nullptr) return failure(Code::kDataLoss, "no description of a command line");
  return root;
}

}  // namespace xoe::command_line
