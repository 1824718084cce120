#include "measure/cli/programs.h"

#include <filesystem>

namespace xoe::bench {

std::string program_beside(std::string_view name) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).replace_filename(name);
}

}  // namespace xoe::bench
