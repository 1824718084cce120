#include "core/command_line/version.h"

namespace xoe::command_line {

std::string_view version() noexcept { return XOE_VERSION; }

}  // namespace xoe::command_line
