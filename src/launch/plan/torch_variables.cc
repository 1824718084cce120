#include "launch/plan/torch_variables.h"

#include "base/hash.h"

namespace xoe::launch {

void set_torch_variables(std::map<std::string, std::string, std::less<>>& variables, const TorchRank& rank,
                         const std::string& job, const std::string& first_host) {
  constexpr std::uint64_t kFirstPort = 20000, kPorts = 10000;  // below the kernels' ephemeral ports
  variables["RANK"] = std::to_string(rank.rank);
  variables["WORLD_SIZE"] = std::to_string(rank.size);
  variables["LOCAL_RANK"] = std::to_string(rank.local_rank);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(rank.local_size);
  variables["GROUP_RANK"] = std::to_string(rank.host);
  variables["TORCHELASTIC_RUN_ID"] = job;
  variables.try_emplace("MASTER_ADDR", first_host);
  variables.try_emplace("MASTER_PORT", std::to_string(kFirstPort + hash_text(job) % kPorts));
}

}  // namespace xoe::launch
