// Options from a file: TOML with the names of the options, or Horovod's YAML.
#pragma once

#include <string>
#include <string_view>

#include "launch/options/run_arguments.h"
#include "xoe/status.h"

namespace xoe::launch {

// The name decides: .yaml and .yml are Horovod's form, everything else is TOML.
Status read_config_file(const std::string& path, RunArguments& run);

// `np = 4`, `hosts = "a:4,b:4"`, `oversubscribe = true`, a table [env]: each key is an option without its dashes.
Status read_toml_config(std::string_view text, std::string_view path, RunArguments& run);

// Sections of `name: value`, which become variables of the ranks, as Horovod makes them.
Status read_yaml_config(std::string_view text, std::string_view path, RunArguments& run);

}  // namespace xoe::launch
