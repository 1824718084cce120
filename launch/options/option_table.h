// The options of `xoe run`, one by one: the same for the command line and configuration files.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "launch/options/run_arguments.h"
#include "xoe/status.h"

namespace xoe::launch {

struct Option {
  using Names = std::array<std::string_view, 3>;  // the rest is empty
  std::string_view group;                         // the heading that the help puts it under
  Names names;
  Names others = {};               // horovodrun's names, and other spellings that the help leaves out
  std::string_view value = {};     // what stands for its value in the help; empty: it takes none
  std::string_view choices = {};   // "slot|node|socket": all values it can have; empty: any
  std::string_view expected = {};  // the form of its value, for messages; empty: as `choices` say
  std::string_view what;           // for the help
  bool pair = false;               // its value may also be two words, which are two numbers
  // An error without a message: the value does not have the expected form.
  Status (*apply)(RunArguments&, std::string_view value);

  bool has_value() const { return !value.empty(); }
  bool has_name(std::string_view name) const;
};

// The group of the options for `xoe pool run`.
inline constexpr std::string_view kPoolOptions = "GPUs of a pool";

// The group of the options for `xoe run --print-kubernetes`.
inline constexpr std::string_view kManifestOptions = "A manifest for Kubernetes";

std::span<const Option> all_options() noexcept;

// `name` is not empty. nullptr: there is no such option.
const Option* find_option(std::string_view name) noexcept;
// `name` is for messages: the option's name as the user wrote it.
Status apply_option(const Option& option, std::string_view name, std::string_view value, RunArguments& run);
// Names the option that was meant, if one is near.
tl::unexpected<Error> unknown_option(std::string_view name);

}  // namespace xoe::launch
