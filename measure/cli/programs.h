// The programs beside this one.
#pragma once

#include <string>
#include <string_view>

namespace xoe::bench {

// Of the same folder as this process's program.
std::string program_beside(std::string_view name);

}  // namespace xoe::bench
