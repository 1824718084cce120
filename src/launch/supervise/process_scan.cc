#include "launch/supervise/process_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/text.h"

namespace xoe::launch {
namespace {

pid_t parent_of(int proc, std::string_view pid) {
  char path[64];
  *fmt::format_to_n(path, sizeof path - 1, "{}/stat", pid).out = '\0';
  const Fd file(::openat(proc, path, O_RDONLY | O_CLOEXEC));
  char text[512];
  const auto count = file.valid() ? ::read(file.get(), text, sizeof text) : -1;
  if (count <= 0) return -1;
  const std::string_view stat(text, static_cast<std::size_t>(count));
  // "pid (name) state parent ...": the name may hold anything, so its end is looked for from the right.
  const auto close = stat.rfind(')');
  if (close == std::string_view::npos || close + 4 > stat.size()) return -1;
  const auto rest = stat.substr(close + 4);
  return static_cast<pid_t>(parse_integer(rest.substr(0, rest.find(' '))).value_or(-1));
}

}  // namespace

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
  if (proc == nullptr) return children;
  const pid_t self = ::getpid();
  while (const dirent* entry = ::readdir(proc.get())) {
    const auto pid = parse_integer(entry->d_name);
    if (pid && parent_of(::dirfd(proc.get()), entry->d_name) == self) children.push_back(static_cast<pid_t>(*pid));
  }
  return children;
}

}  // namespace xoe::launch
