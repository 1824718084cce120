// The options of `xoe run`, one by one: what the command line and configuration files have in common.
#pragma once

#include <span>
#include <string_view>

#include "launch/arguments.h"
#include "xoe/status.h"

namespace xoe::launch {

struct Option {
  std::string_view name;
  bool has_value;
  // `option` is for messages: the name as the user wrote it.
  Status (*apply)(RunArguments&, std::string_view option, std::string_view value);
};

std::span<const Option> all_options() noexcept;
// nullptr: there is no such option.
const Option* find_option(std::string_view name) noexcept;
// With the option that was meant, if one is near.
tl::unexpected<Error> unknown_option(std::string_view name);

}  // namespace xoe::launch
