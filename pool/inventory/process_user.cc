#include <pwd.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "pool/inventory/inventory.h"

namespace xoe::pool {

std::string user_of_process(std::int64_t pid) {
  struct stat facts = {};
  if (::stat(fmt::format("/proc/{}", pid).c_str(), &facts) != 0) return {};
  passwd entry = {};
  passwd* found = nullptr;
  char text[4096];
  if (::getpwuid_r(facts.st_uid, &entry, text, sizeof text, &found) == 0 && found != nullptr) return found->pw_name;
  return fmt::format("uid {}", facts.st_uid);
}

}  // namespace xoe::pool
