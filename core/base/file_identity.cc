#include "core/base/file_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace xoe {

std::string file_identity(int fd) {
  struct stat facts = {};
  if (::fstat(fd, &facts) != 0) return {};
  return fmt::format("{}:{}", facts.st_dev, facts.st_ino);
}

}  // namespace xoe
