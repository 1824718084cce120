#include "launch/plan/devices.h"

#include <filesystem>
#include <system_error>

#include "core/base/text.h"

namespace xoe::launch {

std::vector<std::string> visible_devices(const Env& env) {
  if (const auto list = env.text("CUDA_VISIBLE_DEVICES")) {
    auto devices = split_text(*list, ',');
    if (devices.front() == "-1") devices.clear();
    return devices;
  }
  std::vector<std::string> devices;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("nvidia") && parse_integer(std::string_view(name).substr(6)))
      devices.push_back(std::to_string(devices.size()));
  }
  return devices;
}

}  // namespace xoe::launch
