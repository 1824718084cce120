#include "core/base/make_folder.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace xoe {

bool make_folder_of(const std::string& path) {
  std::error_code error;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) errno = error.value();
  return !error;
}

}  // namespace xoe
