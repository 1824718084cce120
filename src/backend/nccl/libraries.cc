#include "backend/nccl/libraries.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace xoe::nccl {
namespace {

namespace fs = std::filesystem;

// Python environments that the user most likely means, as the folders that have a lib/.
std::vector<fs::path> python_prefixes(const Env& env) {
  std::vector<fs::path> prefixes;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const auto prefix = env.text(variable)) prefixes.emplace_back(*prefix);
  for (const std::string& folder : split_text(env.text("PATH").value_or(""), ':')) {
    if (::access((fs::path(folder) / "python3").c_str(), X_OK) != 0) continue;
    prefixes.push_back(fs::path(folder).parent_path());
    break;
  }
  return prefixes;
}

// Where NVIDIA's wheels put a library, below site-packages/nvidia/.
std::vector<std::string> in_wheels(const Env& env, const std::vector<std::string>& places) {
  std::vector<std::string> found;
  for (const fs::path& prefix : python_prefixes(env)) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(prefix / "lib", ignored)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const std::string& place : places) {
        const fs::path path = entry.path() / "site-packages/nvidia" / place;
        if (fs::exists(path, ignored)) found.push_back(path.string());
      }
    }
  }
  return found;
}

// The first that the process has already, PyTorch's for example, else that loads; `problems` gets what the loader said
// of the others.
void* open_first(const std::vector<std::string>& names, std::string& problems) {
  for (const std::string& name : names)
    if (void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return library;
  for (const std::string& name : names) {
    if (void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    problems += (problems.empty() ? "" : "; ") + std::string(::dlerror());
  }
  return nullptr;
}

template <class Function>
void take(void* library, Function& field, const char* symbol) {
  field = reinterpret_cast<Function>(::dlsym(library, symbol));
}

}  // namespace

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

Result<NcclApi> load_nccl(const Env& env) {
  std::string problems;
  void* library = nullptr;
  if (const auto chosen = env.text("XOE_NCCL_LIBRARY")) {
    library = open_first({*chosen}, problems);
    if (library == nullptr)
      return failure(Code::kUnsupported, "XOE_NCCL_LIBRARY={} does not load: {}", *chosen, problems);
  } else {
    std::vector<std::string> names{"libnccl.so.2"};
    for (std::string& path : in_wheels(env, {"nccl/lib/libnccl.so.2"})) names.push_back(std::move(path));
    library = open_first(names, problems);
    if (library == nullptr)
      return failure(Code::kUnsupported,
                     "no NCCL: {}; install it (Debian: libnccl2 of NVIDIA's repository, Python: nvidia-nccl-cu13), or "
                     "name the file in XOE_NCCL_LIBRARY",
                     problems);
  }
  NcclApi api;
  std::string missing;
  int version = 0;
  take(library, api.get_version, "ncclGetVersion");
  if (api.get_version != nullptr) (void)api.get_version(&version);
  for_each_nccl_function(api, [&](auto& field, const char* symbol, int since) {
    if (version < since) return;
    take(library, field, symbol);
    if (field == nullptr && since == 0) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  });
  if (!missing.empty())
    return failure(Code::kUnsupported, "NCCL {} lacks {}; version 2.7 or later is needed", nccl_version_text(version),
                   missing);
  return api;
}

Result<CudaApi> load_cuda(const Env& env) {
  std::vector<std::string> names{"libcudart.so.13", "libcudart.so.12"};
  for (std::string& path : in_wheels(
           env, {"cu13/lib/libcudart.so.13", "cuda_runtime/lib/libcudart.so.13", "cuda_runtime/lib/libcudart.so.12"}))
    names.push_back(std::move(path));
  std::string problems, missing;
  void* const library = open_first(names, problems);
  if (library == nullptr)
    return failure(Code::kUnsupported,
                   "no CUDA runtime: {}; install it (Debian: cuda-cudart of NVIDIA's repository, Python: "
                   "nvidia-cuda-runtime)",
                   problems);
  CudaApi api;
  for_each_cuda_function(api, [&](auto& field, const char* symbol) {
    take(library, field, symbol);
    if (field == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  });
  if (!missing.empty())
    return failure(Code::kUnsupported, "the CUDA runtime lacks {}: it is too old or too new", missing);
  if (void* const driver = open_first({"libcuda.so.1"}, problems))
    for_each_driver_function(api, [&](auto& field, const char* symbol) { take(driver, field, symbol); });
  return api;
}

std::optional<NvmlApi> load_nvml() {
  std::string ignored;
  void* const library = open_first({"libnvidia-ml.so.1"}, ignored);
  if (library == nullptr) return std::nullopt;
  NvmlApi api;
  bool whole = true;
  for_each_nvml_function(api, [&](auto& field, const char* symbol) {
    take(library, field, symbol);
    whole = whole && field != nullptr;
  });
  return whole ? std::optional(api) : std::nullopt;
}

Result<Libraries> make_libraries(NcclApi nccl, CudaApi cuda, std::optional<NvmlApi> nvml) {
  int version = 0;
  if (const NcclResult result = nccl.get_version(&version); result != NcclResult::kSuccess)
    return failure(Code::kUnsupported, "NCCL does not tell its version: {}", nccl.get_error_string(result));
  if (version < nccl_version(2, 7, 0))
    return failure(Code::kUnsupported, "NCCL {} is too old; version 2.7 or later is needed",
                   nccl_version_text(version));
  return Libraries{
      .nccl = nccl, .nccl_version = version, .features = nccl_features(nccl, version), .cuda = cuda, .nvml = nvml};
}

}  // namespace xoe::nccl
