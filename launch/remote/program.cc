#include "launch/remote/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::remote {
namespace {

enum class Found : std::uint8_t { kNo, kProgram, kFolder, kNotExecutable, kOutOfReach };

Found look_at(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) return errno == EACCES ? Found::kOutOfReach : Found::kNo;
  if (S_ISDIR(facts.st_mode)) return Found::kFolder;
  return ::access(path.c_str(), X_OK) == 0 ? Found::kProgram : Found::kNotExecutable;
}

// For a script that is no program by itself.
std::string interpreter_hint(const std::string& name) {
  if (name.ends_with(".py")) return fmt::format("; did you mean `python {}`?", name);
  if (name.ends_with(".sh")) return fmt::format("; did you mean `sh {}`?", name);
  return {};
}

}  // namespace

Result<std::string> find_program(std::string_view program, const Env& env) {
  const std::string name(program);
  if (name.find('/') != std::string::npos) {
    switch (look_at(name)) {
      case Found::kProgram: return name;
      case Found::kFolder: return failure(Code::kInvalidArgument, "cannot run {}: it is a folder", name);
      case Found::kNotExecutable:
        return failure(Code::kInvalidArgument, "cannot run {}: permission denied (is it executable?){}", name,
                       interpreter_hint(name));
      case Found::kOutOfReach: return failure(Code::kInvalidArgument, "cannot run {}: permission denied", name);
      case Found::kNo: return failure(Code::kUnavailable, "cannot run {}: no such file", name);
    }
  }
  std::string denied;
  for (const std::string& folder : split_text(env.text("PATH").value_or("/usr/local/bin:/usr/bin:/bin"), ':')) {
    std::string path = folder.empty() ? "./" : folder + "/";
    path += name;
    const Found found = look_at(path);
    if (found == Found::kProgram) return path;
    if (found == Found::kNotExecutable && denied.empty()) denied = path;  // a folder out of reach says nothing
  }
  if (!denied.empty()) return failure(Code::kInvalidArgument, "cannot run {}: {} is not executable", name, denied);
  if (!name.empty() && look_at(name) == Found::kProgram)
    return failure(Code::kUnavailable, "cannot run {}: it is not in PATH; did you mean ./{}?", name, name);
  const bool here = !name.empty() && look_at(name) == Found::kNotExecutable;
  return failure(Code::kUnavailable, "cannot run {}: there is no such program in PATH{}", name,
                 here ? interpreter_hint(name) : "");
}

std::string python_program(const Env& env) {
  if (const auto named = env.text("XOE_PACKAGE_PYTHON"); named && !named->empty()) return *named;
  return find_program("python", env) || !find_program("python3", env) ? "python" : "python3";
}

}  // namespace xoe::remote
