#include "core/backend/net/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace xoe::net {
namespace {

namespace fs = std::filesystem;

// The folder of the library or program that this code is part of.
fs::path own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&build_name), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  // The name of a program is how it was called, perhaps through PATH.
  const fs::path path(info.dli_fname);
  const fs::path whole = path.has_parent_path() ? fs::canonical(path, ignored) : fs::path();
  return (whole.empty() ? fs::read_symlink("/proc/self/exe", ignored) : whole).parent_path();
}

// Where a plug-in may lie, best first. The last is a bare name, which the loader seeks itself: in the program's
// RUNPATH, which a program that was linked with an installed Xoe has, and in the system's folders.
std::vector<fs::path> places(std::string_view name, std::string_view folder) {
  const std::string file = fmt::format("libxoe-{}.so", name);
  if (!folder.empty()) return {fs::path(folder) / file};
  const fs::path own = own_folder();
  return {own / file, own.parent_path() / "lib" / file, fs::path(file)};
}

Result<std::unique_ptr<Provider>> open_library(void* library, const fs::path& path, const NetOptions& options) {
  const auto build = reinterpret_cast<const char* (*)()>(::dlsym(library, kBuildSymbol));
  const auto open = reinterpret_cast<OpenFunction>(::dlsym(library, kOpenSymbol));
  if (build == nullptr || open == nullptr) return failure(Code::kUnsupported, "{} is no backend of Xoe", path.string());
  if (build() != build_name())
    return failure(Code::kUnsupported, "{} belongs to another build of Xoe ({}; this is {}); install both from one",
                   path.string(), build(), build_name());
  const std::unique_ptr<Result<std::unique_ptr<Provider>>> opened(open(options));
  return std::move(*opened);
}

}  // namespace

std::string_view build_name() noexcept { return XOE_BUILD_NAME; }

Result<std::unique_ptr<Provider>> open_plugin(std::string_view name, const NetOptions& options,
                                              std::string_view folder) {
  const auto candidates = places(name, folder);
  std::string why = fmt::format("no file {}", candidates.front().string());
  for (const fs::path& path : candidates) {
    const bool bare = !path.has_parent_path();
    if (!bare && ::access(path.c_str(), F_OK) != 0) continue;
    if (void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | XOE_DEEP_BIND); library != nullptr)
      return open_library(library, path, options);
    if (!bare) return failure(Code::kUnsupported, "the backend {} does not load: {}", name, ::dlerror());
    why += fmt::format("; {}", ::dlerror());
  }
  return failure(Code::kUnsupported, "the backend {} is not installed: {}", name, why);
}

}  // namespace xoe::net
