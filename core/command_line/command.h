// A program's command line as data: its help, its completion and its manual page are made from this.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::command_line {

// An option, or an operand: a word that is no option and stands for what its name says.
struct Argument {
  std::vector<std::string> names = {};    // with their dashes; an operand has one, without
  std::string value = {};                 // what stands for the value in the help: FILE; empty: it takes none
  std::vector<std::string> choices = {};  // all values that it can have; empty: any
  std::string what = {};                  // what it does, without a full stop
  std::string fallback = {};              // its value if it is not given; empty: none, or `what` tells
  std::string group = {};                 // the heading that it stands under
  bool required = true;                   // of an operand
  bool repeated = false;
};

struct Command {
  std::string name = {};  // "xoe data make"
  std::string what = {};
  std::string usage = {};  // what follows the name; empty: made from the rest
  std::vector<Argument> operands = {};
  std::vector<Argument> options = {};
  std::vector<Command> verbs = {};
  std::string footer = {};  // examples, exit codes
};

// "a", "a or b", "a, b or c"
std::string one_of(const std::vector<std::string>& words);

inline constexpr int kUsageError = 2;  // exit code of every program of Xoe after a mistake on its command line

// The word that a program of Xoe answers with encode() of its command line.
inline constexpr std::string_view kDescribe = "--describe";

// Lines of text for another program.
std::string encode(const Command& command);
// `data_loss`: not what encode() makes.
Result<Command> decode(std::string_view text);

}  // namespace xoe::command_line
