// The variables by which torchrun tells a process its place: much that was written for it asks nothing else.
#pragma once

#include <map>
#include <string>

namespace xoe::launch {

// Where a rank stands, as torchrun counts.
struct TorchPlace {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int host = 0;  // its number among those that have ranks
};

// RANK and the others; `job` names it. MASTER_ADDR and MASTER_PORT where PyTorch alone would meet, unless they are set
// already: `first_host`, the name of rank 0's, and a port made from the job's name, which nobody has looked at.
void set_torch_variables(std::map<std::string, std::string, std::less<>>& variables, const TorchPlace& place,
                         const std::string& job, const std::string& first_host);

}  // namespace xoe::launch
