// What the command line of `xoe run` and its configuration file say.
#pragma once

#include <string>
#include <vector>

#include "launch/kubernetes/manifest_options.h"
#include "launch/options/options.h"

namespace xoe::launch {

struct RunArguments {
  RunOptions options;
  std::string config_file = {};
  std::vector<std::string> own_words = {};  // of the command line: options for another `xoe run`, in a pool or a pod
  ManifestOptions manifest = {};
  bool help = false;
  bool version = false;
};

}  // namespace xoe::launch
