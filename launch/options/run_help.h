// What `xoe run` says of its command line.
#pragma once

#include "core/command_line/command.h"

namespace xoe::launch {

command_line::Command run_command();

}  // namespace xoe::launch
