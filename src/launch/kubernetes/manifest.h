// Manifests with which Kubernetes runs the command of a job in every pod: `xoe run --print-kubernetes`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::launch {

enum class ManifestKind : std::uint8_t {
  kNone,      // none is asked for
  kJob,       // Kubernetes' own Job, with an index for each pod, and a headless Service
  kJobSet,    // jobset.x-k8s.io
  kTrainJob,  // Kubeflow Trainer's, which stands on a runtime
  kRuntime,   // that runtime: once for the cluster, by who keeps it
  kMpiJob,    // Kubeflow's MPI operator: mpirun and sshd in the place of `xoe run`
};

// What the command line says of a manifest.
struct ManifestOptions {
  ManifestKind kind = ManifestKind::kNone;
  std::string name = "train";  // of all objects; a label of DNS
  std::string image = {};
  int gpus_per_node = 0;
  std::string device_class = {};  // of the GPUs, as dynamic resource allocation calls them; empty: nvidia.com/gpu
  std::vector<std::string> claims = {};  // NAME:PATH, volumes that all pods share
  std::string queue = {};                // Kueue's; empty: none
  std::string secret_name = {};          // of a Secret that is there; empty: the manifest has one
};

struct Manifest {
  ManifestOptions options = {};
  int nodes = 1;                              // pods
  int ranks_per_node = 1;                     // processes in each
  std::vector<std::string> run_options = {};  // further words for `xoe run` in each pod
  std::vector<std::string> program = {};      // and its arguments
  std::string secret = {};                    // random; for the Secret, if the manifest has one
  std::string command_line = {};              // that asks for it, which the first line repeats
};

// One of these options that was given; nullptr: none.
const char* manifest_option(const ManifestOptions& options) noexcept;

// Checks the options that belong to a manifest: `invalid_argument` names the one that is missing or wrong.
Status check_manifest(const ManifestOptions& options);

// YAML for `kubectl apply -f -`. `invalid_argument` where the kind cannot do what is asked.
Result<std::string> print_manifest(const Manifest& manifest);

// A label of DNS that leaves room for what Kubernetes adds to it: small letters, digits and dashes, 1 to 40.
bool is_manifest_name(std::string_view name) noexcept;

}  // namespace xoe::launch
