// What a pod's manifest says in place of what the doctor found.
#include <fmt/format.h>

#include "doctor/checks/container.h"

namespace xoe::doctor {
namespace {

// Lines below the container, and below the pod's spec. NAME is the container's name.
struct Manifest {
  std::string_view id;
  std::string_view container;
  std::string_view pod;
};

constexpr std::string_view kGpu = R"(resources: {limits: {nvidia.com/gpu: "1"}})";
constexpr std::string_view kMemory = R"(resources: {limits: {memory: 16Gi}})";
constexpr std::string_view kSeccomp = "securityContext: {seccompProfile: {type: RuntimeDefault}}";

constexpr Manifest kManifests[] = {
    {"memory.shm", "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
     "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]"},
    {"memory.cgroup", kMemory, ""},
    {"container.memory", kMemory, ""},
    {"container.dns", "", "dnsPolicy: ClusterFirst"},
    {"container.leader", "", "subdomain: SERVICE  # Service: clusterIP: None, publishNotReadyAddresses: true"},
    {"container.gpu", kGpu, ""},
    {"gpu.count", kGpu, ""},
    {"container.calls", "", kSeccomp},
    {"xoe.shm", "", kSeccomp},
    {"container.files", "volumeMounts: [{name: tmp, mountPath: /tmp}]", "volumes: [{name: tmp, emptyDir: {}}]"},
    {"container.user", "securityContext: {runAsNonRoot: true, runAsUser: 65532}", ""},
    {"container.secret", "volumeMounts: [{name: secret, mountPath: /etc/xoe, readOnly: true}]",
     "volumes: [{name: secret, secret: {secretName: SECRET, defaultMode: 0444}}]"},
};

std::string lines_of_manifest(std::string_view container, std::string_view pod) {
  std::string lines = "spec:\n";
  if (!container.empty()) lines += fmt::format("  containers:\n  - name: NAME\n    {}\n", container);
  if (!pod.empty()) lines += fmt::format("  {}\n", pod);
  return lines;
}

}  // namespace

void add_manifests(Findings& findings) {
  for (Finding& finding : findings) {
    if (finding.severity == Severity::kOk || finding.severity == Severity::kSkipped || finding.fix.empty()) continue;
    if (finding.id == "container.cpu")
      finding.manifest = lines_of_manifest(
          fmt::format(R"(resources: {{limits: {{cpu: "{}"}}}})", finding.details["wanted"].dump()), "");
    for (const Manifest& manifest : kManifests)
      if (manifest.id == finding.id) finding.manifest = lines_of_manifest(manifest.container, manifest.pod);
  }
}

}  // namespace xoe::doctor
