#include "launch/plan/devices.h"

#include <filesystem>
#include <system_error>

#include "core/base/text.h"

namespace xoe::launch {

std::vector<std::string> visible_devices(const Env& env) {
  std::vector<std::string> devices;
  if (const auto list = env.all().find("CUDA_VISIBLE_DEVICES"); list != env.all().end()) {
    for (std::string& one : split_text(list->second, ',')) {
      if (one.empty() || one == "-1") break;  // CUDA looks no further
      devices.push_back(std::move(one));
    }
    return devices;
  }
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/dev", error), end; entry != end && !error; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.starts_with("nvidia") && parse_integer(std::string_view(name).substr(6)))
      devices.push_back(std::to_string(devices.size()));
  }
  return devices;
}

}  // namespace xoe::launch
