// Files of /proc, /sys, /dev and /etc, below a root that tests and recorded trees replace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/env.h"

namespace xoe::doctor {

class Tree {
 public:
  explicit Tree(std::string root = "/");

  // The running machine itself, not a recorded copy of one: what is no file may be asked too.
  bool live() const noexcept { return root_.empty(); }
  std::string path(std::string_view name) const { return root_ + std::string(name); }  // of "/proc/version"
  bool has(std::string_view name) const;

  // At most 1 MiB, without blanks at the end; nullopt when it cannot be read.
  std::optional<std::string> text(std::string_view name) const;
  std::optional<std::string> bytes(std::string_view name, std::size_t most) const;  // as they are
  std::string line(std::string_view name) const;  // the first one; empty when there is none
  std::optional<std::int64_t> number(std::string_view name) const;
  std::vector<std::string> names(std::string_view folder) const;        // sorted
  std::optional<std::string> target(std::string_view link) const;       // the last part of where a link leads
  std::optional<std::string> full_target(std::string_view link) const;  // all of it, as written

 private:
  std::string root_;  // without the last slash
};

// The variables of this process.
Env environment_of(const Tree& tree);

// The text after "KEY:" or "KEY " in a file of such lines; empty when there is none.
std::string field(std::string_view text, std::string_view key);
std::vector<std::string> lines_of(std::string_view text);
// "0-3,8" as numbers; at most 65536 of them, what is malformed is left out.
std::vector<int> parse_cpu_list(std::string_view text);

}  // namespace xoe::doctor
