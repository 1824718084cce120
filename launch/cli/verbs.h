// The verbs of `xoe`: some are built in, the others are programs beside it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/command_line/command.h"

namespace xoe::tools {

struct Verb {
  std::string_view name;
  std::string_view what;
  bool built_in = false;
};

std::span<const Verb> all_verbs() noexcept;
// The program of a verb that is not built in.
std::string program_of(std::string_view verb);
// The verbs that this Xoe was built with.
command_line::Command short_command();
// The same with all their options: each program is asked.
command_line::Command whole_command();
// Of `xoe completion`.
command_line::Command completion_command();

}  // namespace xoe::tools
