#include "launch/remote/children.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "core/base/fd.h"
#include "core/base/text.h"

namespace xoe::remote {
namespace {

// The kernel's PF_EXITING, in the flags of a process.
constexpr std::int64_t kExiting = 4;

struct Stat {
  char state = '\0';
  pid_t parent = -1;
  std::int64_t flags = 0;
};

// `path`: of a file /proc/PID/stat, below `folder`.
std::optional<Stat> read_stat(int folder, const char* path) {
  const Fd file(::openat(folder, path, O_RDONLY | O_CLOEXEC));
  char text[512];
  const auto count = file.valid() ? ::read(file.get(), text, sizeof text) : -1;
  if (count <= 0) return std::nullopt;
  const std::string_view all(text, static_cast<std::size_t>(count));
  // "pid (name) state parent group session terminal its-group flags ...": the name may hold anything, so its end is
  // looked for from the right.
  const auto close = all.rfind(')');
  if (close == std::string_view::npos) return std::nullopt;
  const auto fields = split_text(all.substr(close + 1), ' ');
  if (fields.size() < 8 || fields[1].empty()) return std::nullopt;
  return Stat{.state = fields[1].front(),
              .parent = static_cast<pid_t>(parse_integer(fields[2]).value_or(-1)),
              .flags = parse_integer(fields[7]).value_or(0)};
}

}  // namespace

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
  if (proc == nullptr) return children;
  const pid_t self = ::getpid();
  while (const dirent* entry = ::readdir(proc.get())) {
    const auto pid = parse_integer(entry->d_name);
    if (!pid) continue;
    const auto stat = read_stat(::dirfd(proc.get()), fmt::format("{}/stat", *pid).c_str());
    if (stat && stat->parent == self) children.push_back(static_cast<pid_t>(*pid));
  }
  return children;
}

bool is_exiting(pid_t child) {
  const auto stat = read_stat(AT_FDCWD, fmt::format("/proc/{}/stat", child).c_str());
  return !stat || stat->state == 'Z' || (stat->flags & kExiting) != 0;
}

}  // namespace xoe::remote
