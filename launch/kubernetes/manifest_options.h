// What the command line says of a manifest, and whether Kubernetes could have it.
#pragma once

#include <cstddef>
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
  std::string name = {};  // of the job, and before the kind in the names of what belongs to it; empty: train
  std::string image = {};
  int gpus_per_node = 0;
  std::string device_class = {};  // of the GPUs, as dynamic resource allocation calls them; empty: nvidia.com/gpu
  std::vector<std::string> claims = {};  // NAME:PATH[:ro], volumes that all pods share
  std::string queue = {};                // Kueue's; empty: none
  std::string secret_name = {};          // of a Secret that is there; empty: the manifest has one
};

// A claim of the options, in its parts.
struct ManifestClaim {
  std::string name;
  std::string path;
  bool read_only;

  std::string volume() const;  // the name of its volume in a pod
};

inline constexpr std::string_view kSecretFolder = "/etc/xoe";  // where pods see the secret

// NAME:PATH[:ro] for each. REQUIRES: is_claim().
std::vector<ManifestClaim> claims_of(const ManifestOptions& options);

// One of these options that was given; nullptr: none.
const char* manifest_option(const ManifestOptions& options) noexcept;

// Checks the options that belong to a manifest: `invalid_argument` names the one that is missing or wrong.
Status check_manifest(const ManifestOptions& options);

// A label of DNS that leaves room for what Kubernetes adds to it: small letters, digits and dashes, 1 to 40.
bool is_manifest_name(std::string_view name) noexcept;
// As objects that are there may be called, with points too.
bool is_object_name(std::string_view name) noexcept;
// NAME:PATH, or NAME:PATH:ro for a volume that pods only read.
bool is_claim(std::string_view text);

}  // namespace xoe::launch
