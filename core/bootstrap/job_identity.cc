#include "core/bootstrap/job_identity.h"

#include <unistd.h>

#include <optional>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/text.h"

namespace xoe::bootstrap {
namespace {

struct ProcessFacts {
  std::string program;
  int parent = 0;
  std::string start;  // ticks since boot
};

std::optional<std::string> read_proc(int pid, std::string_view file) {
  return read_start(fmt::format("/proc/{}/{}", pid, file), std::size_t{64} << 20);
}

std::optional<ProcessFacts> facts_of(int pid) {
  const auto stat = read_proc(pid, "stat");
  if (!stat) return std::nullopt;
  // The program's name is in parentheses and may contain any characters.
  const auto open = stat->find('(');
  const auto close = stat->rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 2 > stat->size()) return std::nullopt;
  const auto fields = split_text(std::string_view(*stat).substr(close + 2), ' ');  // from field 3, the state
  if (fields.size() < 20) return std::nullopt;
  const auto parent = parse_integer(fields[1]);
  if (!parent) return std::nullopt;
  return ProcessFacts{
      .program = stat->substr(open + 1, close - open - 1), .parent = static_cast<int>(*parent), .start = fields[19]};
}

bool started_with(int pid, std::string_view marker) {
  const auto environment = read_proc(pid, "environ");
  if (!environment) return false;
  for (const std::string& entry : split_text(*environment, '\0'))
    if (entry.size() > marker.size() && entry.starts_with(marker) && entry[marker.size()] == '=') return true;
  return false;
}

}  // namespace

Result<std::string> launcher_above(std::string_view marker, std::string_view program) {
  for (int pid = ::getppid(); pid > 0;) {
    const auto facts = facts_of(pid);
    if (!facts) break;
    if (facts->program.starts_with(program) || !started_with(pid, marker))
      return fmt::format("{}-{}", pid, facts->start);
    pid = facts->parent;
  }
  return failure(Code::kUnavailable, "{} is set, but the launcher that set it is not among this process's ancestors",
                 marker);
}

}  // namespace xoe::bootstrap
