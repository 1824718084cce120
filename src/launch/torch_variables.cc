#include "launch/torch_variables.h"

#include "base/hash.h"

namespace xoe::launch {

void set_torch_variables(std::map<std::string, std::string, std::less<>>& variables, const TorchPlace& place,
                         const std::string& job, const std::string& first_host) {
  constexpr std::uint64_t kFirstPort = 20000, kPorts = 10000;  // below those that kernels give away
  variables["RANK"] = std::to_string(place.rank);
  variables["WORLD_SIZE"] = std::to_string(place.size);
  variables["LOCAL_RANK"] = std::to_string(place.local_rank);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(place.local_size);
  variables["GROUP_RANK"] = std::to_string(place.host);
  variables["TORCHELASTIC_RUN_ID"] = job;
  variables.try_emplace("MASTER_ADDR", first_host);
  variables.try_emplace("MASTER_PORT", std::to_string(kFirstPort + hash_text(job) % kPorts));
}

}  // namespace xoe::launch
