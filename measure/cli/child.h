// Programs that a measurement starts.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::bench {

struct ChildOptions {
  std::map<std::string, std::string> variables = {};  // beside this process's own
  std::optional<cpu_set_t> cpus = {};                 // those that it may run on
};

// A running program, which ends with this object or with this process.
class Child {
 public:
  // `unavailable`: it cannot be started.
  static Result<Child> start(const std::vector<std::string>& words, const ChildOptions& options = {});
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  // Until it has ended. `unavailable`: not with exit code 0; with how, and the last lines that it wrote.
  Status wait();

 private:
  Child(pid_t pid, Fd output, std::string name) : pid_(pid), output_(std::move(output)), name_(std::move(name)) {}

  pid_t pid_;
  Fd output_;  // a file in memory
  std::string name_;
};

}  // namespace xoe::bench
