// Horovod's settings: their names in its configuration file and on its command line, and the variables that ranks read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "launch/options/run_arguments.h"
#include "xoe/status.h"

namespace xoe::launch {

struct HorovodSetting {
  enum class Form : std::uint8_t {
    kPlain,
    kMegabytes,  // becomes bytes
    kSwitch,     // true or false become 1 or 0
    kOff,        // false becomes 1, true nothing
  };
  std::string_view section;   // of the file
  std::string_view key;       // in it
  std::string_view flag;      // on the command line; "--no-..." is its opposite where the form is a switch
  std::string_view variable;  // read by the ranks, which explain those without a meaning here
  Form form = Form::kPlain;
};

std::span<const HorovodSetting> horovod_settings() noexcept;

// `value` as the file has it; an empty one sets nothing.
Status apply_horovod_setting(const HorovodSetting& setting, const std::string& value, RunArguments& run);

// An option of horovodrun that `xoe run` does not have itself.
struct HorovodFlag {
  const HorovodSetting* setting = nullptr;
  std::string_view implied = {};  // the value of a flag that takes none
  std::string_view reason = {};   // why it has no meaning here; setting is null then
  bool has_value = false;
  bool refused = false;  // the job would not be the one that was asked for
};
std::optional<HorovodFlag> find_horovod_flag(std::string_view name) noexcept;

}  // namespace xoe::launch
