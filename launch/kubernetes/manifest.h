// Manifests with which Kubernetes runs the command of a job in every pod: `xoe run --print-kubernetes`.
#pragma once

#include <string>
#include <vector>

#include "launch/kubernetes/manifest_options.h"
#include "xoe/status.h"

namespace xoe::launch {

struct Manifest {
  ManifestOptions options = {};
  int nodes = 1;                               // pods
  int ranks_per_node = 1;                      // processes in each
  std::vector<std::string> run_options = {};   // further words for `xoe run` in each pod
  std::vector<std::string> program = {};       // and its arguments
  int grace_seconds = 120;                     // between SIGTERM and SIGKILL: for a checkpoint
  std::string secret = {};                     // random; for the Secret, if the manifest has one
  std::vector<std::string> command_line = {};  // that asks for it, which the first line repeats
};

// YAML for `kubectl apply -f -`. `invalid_argument` where the kind cannot do what is asked.
Result<std::string> print_manifest(const Manifest& manifest);

}  // namespace xoe::launch
