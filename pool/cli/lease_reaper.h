// A process that gives leases back when the one that holds them was killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "core/base/fd.h"
#include "pool/cli/verbs.h"

namespace xoe::tools::pool {

// The cgroup of the program of this process's `xoe pool run`, where it has one.
std::string device_rule_name(pid_t run);
// The value of kRunVariable for the program of the `xoe pool run` with this process id: no other run ever has it.
std::string run_mark(pid_t run);
inline constexpr const char* kRunVariable = "XOE_POOL_RUN";

// Of a program with one thread. The reaper ends with this object, or after it has given back what was held when this
// process died: once the program that used the GPUs is gone, too, and all that it started.
class LeaseReaper {
 public:
  // To be started before anything is held.
  static Result<LeaseReaper> start(const Connection& connection);

  void holds(std::int64_t lease) const { tell('+', lease); }
  void gave_back(std::int64_t lease) const { tell('-', lease); }
  void runs(pid_t program) const { tell('p', program); }

 private:
  explicit LeaseReaper(Fd pipe) : pipe_(std::move(pipe)) {}
  void tell(char what, std::int64_t number) const;

  Fd pipe_;
};

}  // namespace xoe::tools::pool
