#include "core/base/process_activity.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/machine.h"
#include "core/base/text.h"

#include <fmt/format.h>

namespace xoe {
namespace {

struct Process {
  pid_t parent = -1;
  char state = '\0';
  std::int64_t ticks = 0;
};

std::optional<Process> read_process(pid_t pid) {
  const auto line = read_line(fmt::format("/proc/{}/stat", pid));
  const auto end = line ? line->rfind(") ") : std::string::npos;
  if (end == std::string::npos) return std::nullopt;
  // After the name: state, parent, ...; from the 12th on the user's and the system's time, its own and that of the
  // children that it has waited for: without these a process that ends would take its time away with it.
  const auto fields = words_of(line->substr(end + 2));
  if (fields.size() < 15) return std::nullopt;
  std::int64_t ticks = 0;
  for (std::size_t i = 11; i < 15; ++i) ticks += parse_integer(fields[i]).value_or(0);
  return Process{
      .parent = static_cast<pid_t>(parse_integer(fields[1]).value_or(-1)), .state = fields[0].front(), .ticks = ticks};
}

}  // namespace

std::optional<ProcessActivity> process_activity(pid_t pid) {
  const auto self = pid > 0 ? read_process(pid) : std::nullopt;
  if (!self) return std::nullopt;
  std::multimap<pid_t, std::pair<pid_t, std::int64_t>> children;  // with their ticks, by parent
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error))
    if (const auto other = parse_integer(at->path().filename().string()))
      if (const auto process = read_process(static_cast<pid_t>(*other)))
        children.emplace(process->parent, std::pair(static_cast<pid_t>(*other), process->ticks));
  std::int64_t ticks = self->ticks;
  for (std::vector<pid_t> open{pid}; !open.empty();) {
    const auto [begin, end] = children.equal_range(open.back());
    open.pop_back();
    for (auto child = begin; child != end; ++child) {
      ticks += child->second.second;
      open.push_back(child->second.first);
    }
    children.erase(begin, end);  // pids that were reused while we read cannot make a circle
  }
  return ProcessActivity{.used = std::chrono::nanoseconds(std::chrono::seconds(1)) * ticks / ::sysconf(_SC_CLK_TCK),
                         .stopped = self->state == 'T' || self->state == 't',
                         .at = std::chrono::steady_clock::now()};
}

}  // namespace xoe
