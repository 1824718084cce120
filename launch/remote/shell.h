// Quoting for POSIX shells.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xoe::remote {

// One word that every POSIX shell reads as `text`.
std::string shell_word(std::string_view text);

// A command as one line for a shell.
std::string shell_line(const std::vector<std::string>& command);

}  // namespace xoe::remote
