#include "launch/options/config_file.h"

#include "core/base/error.h"
#include "core/base/text_file.h"

namespace xoe::launch {

Status read_config_file(const std::string& path, RunArguments& run) {
  const auto text = read_text_file(path);
  if (!text) return failure(text.error().code(), "--config-file {}: {}", path, text.error().message());
  const bool yaml = path.ends_with(".yaml") || path.ends_with(".yml");
  return yaml ? read_yaml_config(*text, path, run) : read_toml_config(*text, path, run);
}

}  // namespace xoe::launch
