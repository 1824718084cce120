// The launcher's connection to its supervisor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "launch/supervise/supervisor.h"
#include "xoe/status.h"

namespace xoe::launch {

class SupervisorLink {
 public:
  // Forks the supervisor, which starts the ranks. `not_inherited`: descriptors that it must not keep open. `restarts`:
  // and `first` as the supervisor's.
  static Result<SupervisorLink> start(std::vector<remote::SpawnRequest> requests, std::span<const int> not_inherited,
                                      bool restarts, std::size_t first = SIZE_MAX);
  SupervisorLink(SupervisorLink&&) = default;

  int fd() const noexcept { return control_.get(); }
  void send(SupervisorCommand command);
  // The next event, if one has arrived. When the supervisor dies, its descendants are killed; kSupervisorLost and
  // kAllGone follow.
  std::optional<SupervisorEvent> next();

 private:
  SupervisorLink(Fd control, pid_t pid, std::vector<pid_t> older_children)
      : control_(std::move(control)), pid_(pid), older_children_(std::move(older_children)) {}
  SupervisorEvent on_lost();
  void kill_adopted();

  Fd control_;
  pid_t pid_ = -1;
  std::vector<pid_t> older_children_;  // children of the program that became the launcher by exec
  bool lost_ = false;
  bool gone_ = false;
};

}  // namespace xoe::launch
