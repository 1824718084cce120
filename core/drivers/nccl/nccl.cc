#include "core/drivers/nccl/nccl.h"

#include "core/base/error.h"

namespace xoe {

std::string nccl_version_text(int version) {
  const int unit = version < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", version / unit, version % unit / 100, version % 100);
}

NcclFeatures nccl_features(const NcclApi& api, int version) noexcept {
  return {.bfloat16 = version >= nccl_version(2, 10, 0),
          .average = version >= nccl_version(2, 10, 0),
          .pre_mul_sum = api.red_op_create_pre_mul_sum != nullptr && api.red_op_destroy != nullptr,
          .non_blocking = api.comm_init_rank_config != nullptr && api.comm_finalize != nullptr,
          .registration = api.comm_register != nullptr && api.comm_deregister != nullptr};
}

NcclApi find_nccl_functions(const Library& library) {
  NcclApi api;
  int version = 0;
  library.find(api.get_version, "ncclGetVersion");
  if (api.get_version != nullptr) (void)api.get_version(&version);
  for_each_nccl_function(api, [&](auto& function, const char* symbol, int since) {
    if (version >= since) library.find(function, symbol);
  });
  return api;
}

Result<NcclApi> load_nccl(const Env& env) {
  const auto chosen = env.text("XOE_NCCL_LIBRARY");
  std::vector<std::string> names{chosen.value_or("libnccl.so.2")};
  if (!chosen)
    for (std::string& path : find_in_wheels(env, {"nccl/lib/libnccl.so.2"})) names.push_back(std::move(path));
  const auto library = Library::open(names);
  if (!library && chosen)
    return failure(Code::kUnsupported, "XOE_NCCL_LIBRARY={} does not load: {}", *chosen, library.error().message());
  if (!library)
    return failure(Code::kUnsupported,
                   "no NCCL: {}; install it (Debian: libnccl2 of NVIDIA's repository, Python: nvidia-nccl-cu13), or "
                   "name the file in XOE_NCCL_LIBRARY",
                   library.error().message());
  NcclApi api = find_nccl_functions(*library);
  std::string missing;
  for_each_nccl_function(api, [&](const auto& function, const char* symbol, int since) {
    if (function == nullptr && since == 0) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  });
  if (missing.empty()) return api;
  int version = 0;
  if (api.get_version != nullptr) (void)api.get_version(&version);
  return failure(Code::kUnsupported, "NCCL {} lacks {}; version 2.7 or later is needed", nccl_version_text(version),
                 missing);
}

}  // namespace xoe
