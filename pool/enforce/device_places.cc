#include "pool/enforce/device_places.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>

#include "core/base/text.h"

namespace xoe::pool {

DevicePlaces places_below(const std::string& root) {
  DevicePlaces places;
  for (std::string* const place :
       {&places.gpus, &places.parameters, &places.devices, &places.mounts, &places.own_group, &places.kept})
    place->insert(0, root);
  return places;
}

DeviceMinors device_minors(const DevicePlaces& places) {
  DeviceMinors minors;
  std::error_code error;
  std::filesystem::directory_iterator entries(places.gpus, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::filesystem::path gpu = entries->path();
    std::ifstream file(gpu / "information");
    std::string uuid;
    std::optional<std::int64_t> minor;
    for (std::string line; std::getline(file, line);) {
      const auto colon = line.find(':');
      if (colon == std::string::npos) continue;
      const std::string value(trimmed(line.substr(colon + 1)));
      if (line.starts_with("GPU UUID")) uuid = value;
      if (line.starts_with("Device Minor")) minor = parse_integer(value);
    }
    if (!minor || *minor < 0) continue;
    minors.by_pci[short_pci(gpu.filename().string())] = static_cast<unsigned>(*minor);
    if (!uuid.empty()) minors.by_uuid[uuid] = static_cast<unsigned>(*minor);
  }
  return minors;
}

std::string short_pci(std::string_view pci) {
  const auto colon = pci.find(':');
  if (colon != std::string_view::npos && colon > 4) pci.remove_prefix(colon - 4);
  std::string text(pci);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace xoe::pool
