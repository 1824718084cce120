#include "pool/cli/marked_processes.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "core/base/text.h"
#include "core/base/text_file.h"

namespace xoe::tools::pool {

std::vector<pid_t> processes_with(const std::string& entry) {
  std::vector<pid_t> found;
  std::error_code error;  // ends the look
  std::filesystem::directory_iterator folders("/proc", error);
  for (; !error && folders != std::filesystem::directory_iterator(); folders.increment(error)) {
    const auto pid = parse_integer(folders->path().filename().string());
    if (!pid) continue;
    const auto environment = read_text_file(folders->path() / "environ");
    if (environment && std::ranges::count(split_text(*environment, '\0'), entry) != 0)
      found.push_back(static_cast<pid_t>(*pid));
  }
  return found;
}

std::string start_of_process(pid_t pid) {
  // In ticks since the machine did: field 22, the 20th after the program's name.
  const auto stat = read_text_file(fmt::format("/proc/{}/stat", pid));
  const auto name_end = stat ? stat->rfind(')') : std::string::npos;
  const auto fields = name_end == std::string::npos ? std::vector<std::string>()
                                                    : split_text(std::string_view(*stat).substr(name_end + 1), ' ');
  constexpr std::size_t kStart = 20;
  return fields.size() > kStart ? fields[kStart] : "";
}

}  // namespace xoe::tools::pool
