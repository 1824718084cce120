#include "core/drivers/library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe {
namespace {

namespace fs = std::filesystem;

// Folders with a lib/.
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

}  // namespace

Result<Library> Library::open(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return Library(handle);
  std::string problems;
  for (const std::string& name : names) {
    if (void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return Library(handle);
    problems += (problems.empty() ? "" : "; ") + std::string(::dlerror());
  }
  return failure(Code::kUnavailable, problems);
}

void* Library::address_of(const char* symbol) const { return ::dlsym(handle_, symbol); }

std::string Library::path() const {
  link_map* entry = nullptr;
  return ::dlinfo(handle_, RTLD_DI_LINKMAP, &entry) == 0 && entry != nullptr ? entry->l_name : "";
}

std::vector<std::string> find_in_wheels(const Env& env, const std::vector<std::string>& places) {
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

}  // namespace xoe
