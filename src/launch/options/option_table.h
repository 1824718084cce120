// The options of `xoe run`, one by one: the same for the command line and configuration files.
#pragma once

#include <array>
#include <string_view>

#include "launch/options/arguments.h"
#include "xoe/status.h"

namespace xoe::launch {

struct Option {
  std::array<std::string_view, 4> names;  // the rest is empty
  std::string_view expected;              // the form of its value, for messages; empty: it takes none
  // An error without a message: the value does not have the expected form.
  Status (*apply)(RunArguments&, std::string_view value);

  bool has_value() const { return !expected.empty(); }
};

// `name` is not empty. nullptr: there is no such option.
const Option* find_option(std::string_view name) noexcept;
// `name` is for messages: the option's name as the user wrote it.
Status apply_option(const Option& option, std::string_view name, std::string_view value, RunArguments& run);
// Names the option that was meant, if one is near.
tl::unexpected<Error> unknown_option(std::string_view name);

}  // namespace xoe::launch
