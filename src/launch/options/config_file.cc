#include "launch/options/config_file.h"

#include <fstream>
#include <iterator>

#include "base/error.h"

namespace xoe::launch {

Status read_config_file(const std::string& path, RunArguments& run) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad())
    return failure(Code::kInvalidArgument, "--config-file {}: cannot read it: {}", path, errno_text(errno));
  const bool yaml = path.ends_with(".yaml") || path.ends_with(".yml");
  return yaml ? read_yaml_config(text, path, run) : read_toml_config(text, path, run);
}

}  // namespace xoe::launch
