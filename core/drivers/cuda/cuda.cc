#include "core/drivers/cuda/cuda.h"

#include "core/base/error.h"

namespace xoe {

CudaApi find_cuda_functions(const Library& library) {
  CudaApi api;
  for_each_cuda_function(api, [&](auto& function, const char* symbol) { library.find(function, symbol); });
  return api;
}

Result<CudaApi> load_cuda(const Env& env) {
  std::vector<std::string> names{"libcudart.so.13", "libcudart.so.12"};
  for (std::string& path : find_in_wheels(
           env, {"cu13/lib/libcudart.so.13", "cuda_runtime/lib/libcudart.so.13", "cuda_runtime/lib/libcudart.so.12"}))
    names.push_back(std::move(path));
  const auto library = Library::open(names);
  if (!library)
    return failure(Code::kUnsupported,
                   "no CUDA runtime: {}; install it (Debian: cuda-cudart of NVIDIA's repository, Python: "
                   "nvidia-cuda-runtime)",
                   library.error().message());
  CudaApi api = find_cuda_functions(*library);
  std::string missing;
  for_each_cuda_function(api, [&](const auto& function, const char* symbol) {
    if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  });
  if (!missing.empty())
    return failure(Code::kUnsupported, "the CUDA runtime lacks {}: it is too old or too new", missing);
  if (const auto driver = Library::open({"libcuda.so.1"}))
    for_each_driver_function(api, [&](auto& function, const char* symbol) { driver->find(function, symbol); });
  return api;
}

}  // namespace xoe
