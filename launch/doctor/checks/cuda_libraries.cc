// Reads the versions of NCCL and the CUDA runtimes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include <fmt/format.h>

#include "core/base/env.h"
#include "core/base/fd.h"
#include "core/drivers/cuda/cuda.h"
#include "core/drivers/nccl/nccl.h"
#include "launch/doctor/checks/gpus.h"
#include "launch/remote/run_in_child.h"

namespace xoe::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CudaLibraries, nccl_error, nccl, nccl_cuda, nccl_path, runtimes)

namespace {

struct Runtime {
  const char* name;
  std::vector<std::string> in_wheels;
};
const Runtime kRuntimes[] = {{"libcudart.so.13", {"cu13/lib/libcudart.so.13", "cuda_runtime/lib/libcudart.so.13"}},
                             {"libcudart.so.12", {"cuda_runtime/lib/libcudart.so.12"}},
                             {"libcudart.so.11.0", {}}};

// NCCL's file has "NCCL version 2.27.5+cuda12.9" in it; no function tells the second part.
std::string cuda_of(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts = {};
  if (!file.valid() || ::fstat(file.get(), &facts) != 0 || facts.st_size <= 0) return {};
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* const map = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (map == MAP_FAILED) return {};
  static constexpr std::string_view kMark = "NCCL version ";
  static constexpr std::string_view kCuda = "+cuda";
  std::string_view rest(static_cast<const char*>(map), size);
  std::string cuda;
  while (cuda.empty()) {
    const void* const found = ::memmem(rest.data(), rest.size(), kMark.data(), kMark.size());
    if (found == nullptr) break;
    rest.remove_prefix(static_cast<std::size_t>(static_cast<const char*>(found) - rest.data()) + kMark.size());
    const std::string_view line = rest.substr(0, 64);
    const std::string_view version = line.substr(0, line.find_first_not_of("0123456789."));
    if (!line.substr(version.size()).starts_with(kCuda)) continue;
    const std::string_view after = line.substr(version.size() + kCuda.size());
    cuda = after.substr(0, after.find_first_not_of("0123456789."));
  }
  ::munmap(map, size);
  return cuda;
}

// The files of a library, where ranks look for it too.
std::vector<std::string> files_of(const std::string& name, const std::vector<std::string>& in_wheels) {
  std::vector<std::string> files = find_in_wheels(Env::process(), in_wheels);
  files.insert(files.begin(), name);
  return files;
}

void ask_nccl(const std::string& name, CudaLibraries& facts) {
  const auto library =
      name.empty() ? Library::open(files_of("libnccl.so.2", {"nccl/lib/libnccl.so.2"})) : Library::open({name});
  if (!library) {
    facts.nccl_error = library.error().message();
    return;
  }
  const NcclApi api = find_nccl_functions(*library);
  int number = 0;
  if (api.get_version == nullptr || api.get_version(&number) != NcclResult::kSuccess) {
    facts.nccl_error = library->path() + " does not report its version (ncclGetVersion)";
    return;
  }
  // Up to 2.8 it was 1000 x major + 100 x minor + patch.
  facts.nccl = number >= 10000 ? number : number / 1000 * 10000 + number % 1000 / 100 * 100 + number % 100;
  facts.nccl_path = library->path();
  facts.nccl_cuda = cuda_of(facts.nccl_path);
}

void ask_runtimes(CudaLibraries& facts) {
  for (const Runtime& runtime : kRuntimes) {
    const auto library = Library::open(files_of(runtime.name, runtime.in_wheels));
    const CudaApi api = library ? find_cuda_functions(*library) : CudaApi();
    int number = 0;
    if (api.runtime_get_version != nullptr && api.runtime_get_version(&number) == CudaError::kSuccess)
      facts.runtimes.push_back(number);
  }
}

}  // namespace

CudaLibraries ask_cuda_libraries(const std::string& nccl, std::chrono::milliseconds timeout) {
  using nlohmann::json;
  const auto answer = remote::run_in_child(
      [&nccl] {
        CudaLibraries facts;
        ask_nccl(nccl, facts);
        ask_runtimes(facts);
        return json(facts).dump(-1, ' ', false, json::error_handler_t::replace);
      },
      timeout);
  CudaLibraries facts;
  const auto parsed = answer ? json::parse(*answer, nullptr, false) : json();
  if (parsed.is_object())
    parsed.get_to(facts);
  else
    facts.nccl_error = answer ? "NCCL ended the process that loaded it" : "NCCL: " + answer.error().message();
  return facts;
}

}  // namespace xoe::doctor
