#include "core/base/env.h"

#include <dlfcn.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/text.h"

// The launcher is linked statically: it has no dynamic linker, and these are null there.
#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlclose

namespace xoe {
namespace {

// A program that is not position-independent (Debian's and Ubuntu's Python) has a copy of libc's variable `environ`,
// which libc uses, too. A library that is opened with RTLD_DEEPBIND, as jaxlib opens libxoe_mpi.so, sees the original,
// which stays null. So the program is asked for the variable.
char** environment() {
  if (&::dlopen == nullptr) return ::environ;
  void* const program = ::dlopen(nullptr, RTLD_LAZY);
  if (program == nullptr) return ::environ;
  auto* const variable = static_cast<char***>(::dlsym(program, "environ"));
  char** const found = variable != nullptr ? *variable : ::environ;
  ::dlclose(program);
  return found;
}

}  // namespace

Env Env::process() {
  std::map<std::string, std::string, std::less<>> values;
  for (char** entry = environment(); entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    if (const auto at = line.find('='); at != std::string_view::npos)
      values.emplace(line.substr(0, at), line.substr(at + 1));
  }
  return Env(std::move(values));
}

std::optional<std::string> Env::text(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

Result<std::optional<std::int64_t>> Env::integer(std::string_view name, std::int64_t low, std::int64_t high) const {
  const auto value = text(name);
  if (!value) return std::optional<std::int64_t>();
  const auto number = parse_integer(*value);
  if (!number || *number < low || *number > high)
    return failure(Code::kInvalidArgument, "environment variable {}={}: expected a whole number from {} to {}", name,
                   *value, low, high);
  return number;
}

Result<std::optional<double>> Env::seconds(std::string_view name) const {
  const auto value = text(name);
  if (!value) return std::optional<double>();
  const auto number = parse_number(*value);
  if (!number || !(*number > 0) || *number > 1e9)
    return failure(Code::kInvalidArgument, "environment variable {}={}: expected seconds, more than 0", name, *value);
  return number;
}

}  // namespace xoe
