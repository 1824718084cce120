#include "train/cli/trainer_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "launch/remote/ask_program.h"
#include "launch/remote/program.h"

namespace xoe::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBuiltFor = XOE_TORCH_VERSION;
// A program of a wheel must find libtorch, which the wheel does not hold; one of a build folder knows the path to it.
constexpr bool kFindsTorch = XOE_FINDS_TORCH;
constexpr std::string_view kLibrary = "lib/libtorch_cpu.so";
constexpr auto kPythonTimeout = std::chrono::seconds(30);  // from a slow disk

// "2.15" of "2.15.0+cpu". The C++ interface of PyTorch changes from one minor version to the next.
std::string minor_version(std::string_view version) {
  const auto parts = split_text(version, '.');
  return parts.size() < 2 ? std::string(version) : parts[0] + "." + parts[1];
}

// Names the pip of the environment that the package is in: site-packages/xoe/bin is the program's folder.
std::string remedy(const std::string& folder) {
  std::error_code error;
  const fs::path packages = fs::weakly_canonical(folder + "/../..", error);
  const fs::path pip = packages / "../../../bin/pip";
  const bool is_environment = packages.filename() == "site-packages" && fs::exists(pip, error);
  return fmt::format("install it beside Xoe: {} install 'torch=={}.*'",
                     is_environment ? pip.lexically_normal().string() : "pip", minor_version(kBuiltFor));
}

// Reads `__version__ = '2.15.0+cpu'`, which may have a type annotation. Empty: the file names no version.
std::string version_of(const std::string& torch) {
  for (const std::string& line : split_text(read_start(torch + "/version.py", 4096).value_or(""), '\n')) {
    if (!line.starts_with("__version__")) continue;
    const auto begin = line.find_first_of("'\"");
    if (begin == std::string::npos) continue;
    return line.substr(begin + 1, line.find_first_of("'\"", begin + 1) - begin - 1);
  }
  return {};
}

// PyTorch is not imported, which takes seconds.
std::string torch_of_python(const Env& env) {
  constexpr const char* kQuestion = R"(
import importlib.util, sys
sys.path[:] = [folder for folder in sys.path if folder]
found = importlib.util.find_spec("torch")
print("\n" + (found.submodule_search_locations[0] if found and found.submodule_search_locations else "")))";
  const auto python = remote::find_program("python3", env);
  if (!python) return {};
  const auto answer = remote::ask_program({*python, "-c", kQuestion}, remote::Inherited::current(), kPythonTimeout);
  if (!answer || !answer->in_time || answer->status != 0) return {};
  const std::string_view said = trimmed(answer->out);
  return std::string(said.substr(said.rfind('\n') + 1));
}

}  // namespace

std::string_view torch_version() noexcept { return kBuiltFor; }

Result<std::string> find_torch(const std::string& folder, const Env& env) {
  const std::string needs = fmt::format("training needs PyTorch {}", minor_version(kBuiltFor));
  // The package is site-packages/xoe, and the program in its folder bin.
  std::string torch = folder + "/../../torch";
  std::error_code ignored;
  if (!fs::exists(fs::path(torch) / kLibrary, ignored)) torch = torch_of_python(env);
  if (torch.empty() || !fs::exists(fs::path(torch) / kLibrary, ignored))
    return failure(Code::kUnavailable, "{}, which is neither beside this program nor found by python3: {}", needs,
                   remedy(folder));
  const std::string version = version_of(torch);
  if (minor_version(version) != minor_version(kBuiltFor))
    return failure(Code::kUnavailable, "{}, and {} has {}: {}, or build Xoe from its sources for that one", needs,
                   fs::weakly_canonical(torch, ignored).string(),
                   version.empty() ? "no version that can be read" : printable_utf8(version), remedy(folder));
  return torch;
}

Error become_trainer(std::string_view name, char** argv) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (error) return Error(Code::kUnavailable, "cannot find this program's folder: " + error.message());
  const Env env = Env::process();
  if (kFindsTorch) {
    const auto torch = find_torch(folder.string(), env);
    if (!torch) return torch.error();
    const std::string libraries = fs::weakly_canonical(*torch, error).string() + "/lib";
    const auto before = env.text("LD_LIBRARY_PATH");
    ::setenv("LD_LIBRARY_PATH", (before ? libraries + ":" + *before : libraries).c_str(), 1);
  }
  const std::string program = (folder / name).string();
  ::execv(program.c_str(), argv);
  return Error(Code::kUnavailable, fmt::format("cannot run {}: {}", program, errno_text(errno)));
}

}  // namespace xoe::train
