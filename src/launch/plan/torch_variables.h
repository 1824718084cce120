// torchrun's variables: many programs read nothing else.
#pragma once

#include <map>
#include <string>

namespace xoe::launch {

// A rank as torchrun counts.
struct TorchRank {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int host = 0;  // its number among those that have ranks
};

// Sets RANK and the others. MASTER_ADDR and MASTER_PORT, for a PyTorch process group, keep a value that they have; else
// they are `first_host`, rank 0's, and a port made from the job's name without looking whether it is free.
void set_torch_variables(std::map<std::string, std::string, std::less<>>& variables, const TorchRank& rank,
                         const std::string& job, const std::string& first_host);

}  // namespace xoe::launch
