// The launcher's side of its guardian.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "launch/guardian.h"
#include "xoe/status.h"

namespace xoe::launch {

class GuardianLink {
 public:
  // Forks the guardian, which starts the ranks. `close_there`: descriptors that it must not keep. `restarts`: as the
  // guardian's.
  static Result<GuardianLink> start(std::vector<SpawnRequest> requests, std::span<const int> close_there,
                                    bool restarts);
  GuardianLink(GuardianLink&&) = default;

  int fd() const noexcept { return control_.get(); }
  void send(GuardianCommand command);
  // What has arrived. The guardian's own death ends in kAllGone too, after lost() became true and all its
  // descendants were killed.
  std::optional<GuardianEvent> next();
  bool lost() const noexcept { return lost_; }

 private:
  GuardianLink(Fd control, pid_t pid, std::vector<pid_t> older_children)
      : control_(std::move(control)), pid_(pid), older_children_(std::move(older_children)) {}
  void kill_adopted();

  Fd control_;
  pid_t pid_ = -1;
  std::vector<pid_t> older_children_;  // of the program that became the launcher by exec: none of its business
  bool gone_ = false;
  bool lost_ = false;
};

}  // namespace xoe::launch
