// Starts the supervisor: the one place where a process goes on as two.
#pragma once

#include <sys/types.h>

#include <vector>

#include "launch/remote/spawn.h"

namespace xoe::launch {

struct SupervisorStart {
  int control = -1;         // its end of the pair
  std::vector<int> closed;  // descriptors that it must not keep open
  std::vector<remote::SpawnRequest> requests;
  bool restarts = false;
  std::size_t first = 0;
};

// In a copy of this process, which ends with it. Returns its pid, or -1 with errno. A file of its own: in the simulator
// the copy shares the memory of its parent.
pid_t start_supervisor(const SupervisorStart& start);

}  // namespace xoe::launch
