#include "core/command_line/version.h"

namespace xoe::manners {

std::string_view version() noexcept { return XOE_VERSION; }

}  // namespace xoe::manners
