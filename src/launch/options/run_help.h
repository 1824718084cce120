// What `xoe run` says of its command line.
#pragma once

#include "manners/command.h"

namespace xoe::launch {

manners::Command run_command();

}  // namespace xoe::launch
