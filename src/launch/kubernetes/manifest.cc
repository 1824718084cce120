#include "launch/kubernetes/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "launch/kubernetes/yaml.h"

namespace xoe::launch {
namespace {

// Exit codes of `xoe run --rendezvous` with which a job is to go on; the last two are the kernel's and the kubelet's.
constexpr std::string_view kRetryHere = "75";
constexpr std::string_view kRetryCodes = "[75, 76, 137, 143]";
constexpr int kUser = 65532;        // of all processes, and the group of the volumes
constexpr int kGraceSeconds = 120;  // between SIGTERM and SIGKILL: for a checkpoint
constexpr int kRetries = 20;        // of pods, or of the whole set
constexpr std::string_view kSecretFolder = "/etc/xoe";
constexpr std::string_view kRuntimeName = "xoe-distributed";

struct Claim {
  std::string name;
  std::string path;
};

std::vector<Claim> claims_of(const ManifestOptions& options) {
  std::vector<Claim> claims;
  for (const std::string& text : options.claims) {
    const auto colon = text.find(':');
    claims.push_back({text.substr(0, colon), text.substr(colon + 1)});
  }
  return claims;
}

std::string secret_name(const ManifestOptions& options) {
  if (!options.secret_name.empty()) return options.secret_name;
  return options.kind == ManifestKind::kRuntime ? "xoe-rendezvous" : options.name + "-rendezvous";
}

std::string secret_document(const Manifest& manifest) {
  if (!manifest.options.secret_name.empty()) return "";
  return fmt::format(R"(apiVersion: v1
kind: Secret
metadata:
  name: {}
stringData:
  secret: {}
---
)",
                     secret_name(manifest.options), yaml_text(manifest.secret));
}

// Only pods of the job reach each other. Ranks listen on ports that the kernel chooses.
std::string policy_document(const std::string& name, const std::string& label) {
  return fmt::format(R"(apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {0}
spec:
  podSelector:
    matchLabels:
      {1}: {0}
  policyTypes: [Ingress]
  ingress:
  - from:
    - podSelector:
        matchLabels:
          {1}: {0}
---
)",
                     name, label);
}

std::string service_document(const std::string& name) {
  return fmt::format(R"(apiVersion: v1
kind: Service
metadata:
  name: {0}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    batch.kubernetes.io/job-name: {0}
---
)",
                     name);
}

// One device of the class for each GPU of a pod.
std::string claim_template_document(const ManifestOptions& options) {
  if (options.device_class.empty()) return "";
  return fmt::format(R"(apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: {}
spec:
  spec:
    devices:
      requests:
      - name: gpus
        exactly:
          deviceClassName: {}
          allocationMode: ExactCount
          count: {}
---
)",
                     options.name, yaml_text(options.device_class), options.gpus_per_node);
}

std::string metadata(const ManifestOptions& options) {
  std::string text = fmt::format("metadata:\n  name: {}\n", options.name);
  if (!options.queue.empty())
    text += fmt::format("  labels:\n    kueue.x-k8s.io/queue-name: {}\n", yaml_text(options.queue));
  return text;
}

std::string resources(const ManifestOptions& options) {
  if (options.gpus_per_node == 0) return "";
  if (!options.device_class.empty()) return "resources:\n  claims:\n  - name: gpus\n";
  return fmt::format("resources:\n  limits:\n    nvidia.com/gpu: {}\n", options.gpus_per_node);
}

std::string pod_claims(const ManifestOptions& options) {
  if (options.device_class.empty()) return "";
  return fmt::format("resourceClaims:\n- name: gpus\n  resourceClaimTemplateName: {}\n", options.name);
}

constexpr std::string_view kPodSecurity = R"(automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {0}
  runAsGroup: {0}
  fsGroup: {0}
  seccompProfile:
    type: RuntimeDefault
)";

constexpr std::string_view kContainerSecurity = R"(securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
)";

// Shared memory counts as the pod's memory, and its size is the pod's limit.
constexpr std::string_view kMounts = R"(- name: shm
  mountPath: /dev/shm
- name: tmp
  mountPath: /tmp
)";
constexpr std::string_view kVolumes = R"(- name: shm
  emptyDir:
    medium: Memory
- name: tmp
  emptyDir: {}
)";

std::string secret_volume(const std::string& name) {
  return fmt::format("- name: secret\n  secret:\n    secretName: {}\n    defaultMode: 0440\n", name);
}

std::string claim_mounts(const std::vector<Claim>& claims) {
  std::string text;
  for (const Claim& claim : claims)
    text += fmt::format("- name: claim-{}\n  mountPath: {}\n", claim.name, yaml_text(claim.path));
  return text;
}

std::string claim_volumes(const std::vector<Claim>& claims) {
  std::string text;
  for (const Claim& claim : claims)
    text += fmt::format("- name: claim-{0}\n  persistentVolumeClaim:\n    claimName: {0}\n", claim.name);
  return text;
}

std::vector<std::string> run_command(const Manifest& manifest, bool counts) {
  std::vector<std::string> words = {"xoe", "run", "--rendezvous", "auto"};
  if (counts) words.insert(words.end(), {"-np", std::to_string(manifest.ranks_per_node)});
  words.insert(words.end(), manifest.run_options.begin(), manifest.run_options.end());
  words.emplace_back("--");
  return words;
}

std::vector<std::string> joined(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The container that runs `xoe run`. Exit code 75 asks for another start of it, in the pod that it has.
std::string container(const Manifest& manifest) {
  const ManifestOptions& options = manifest.options;
  const bool runtime = options.kind == ManifestKind::kRuntime;
  std::string text = "name: node\n";
  if (!options.image.empty()) text += fmt::format("image: {}\n", yaml_text(options.image));
  const auto command = run_command(manifest, !runtime);
  text += fmt::format("command: {}\n", yaml_list(runtime ? command : joined(command, manifest.program)));
  text += "env:\n";
  // Trainer says how many nodes there are.
  if (!runtime) text += fmt::format("- name: XOE_NODES\n  value: \"{}\"\n", manifest.nodes);
  text += fmt::format("- name: XOE_RENDEZVOUS_SECRET_FILE\n  value: {}/secret\n- name: HOME\n  value: /tmp\n",
                      kSecretFolder);
  text += fmt::format(
      "restartPolicy: Never\nrestartPolicyRules:\n- action: Restart\n  exitCodes:\n    operator: In\n    values: "
      "[{}]\n",
      kRetryHere);
  text += resources(options);
  text += kContainerSecurity;
  text += fmt::format("volumeMounts:\n- name: secret\n  mountPath: {}\n  readOnly: true\n{}{}", kSecretFolder, kMounts,
                      claim_mounts(claims_of(options)));
  return text;
}

std::string list_item(const std::string& text) {
  std::string item = indented(text, 2);
  item[0] = '-';
  return item;
}

std::string pod_spec(const Manifest& manifest) {
  const ManifestOptions& options = manifest.options;
  std::string text;
  if (options.kind == ManifestKind::kJob) text += fmt::format("subdomain: {}\n", options.name);
  text += fmt::format("restartPolicy: Never\nterminationGracePeriodSeconds: {}\n", kGraceSeconds);
  text += fmt::format(kPodSecurity, kUser);
  text += pod_claims(options) + "containers:\n" + list_item(container(manifest));
  text +=
      fmt::format("volumes:\n{}{}{}", secret_volume(secret_name(options)), kVolumes, claim_volumes(claims_of(options)));
  return text;
}

// A pod that a drained node loses does not count; an exit code that asks for no retry ends the job.
std::string job_spec(const Manifest& manifest) {
  return fmt::format(R"(completionMode: Indexed
completions: {0}
parallelism: {0}
backoffLimit: {1}
podReplacementPolicy: Failed
podFailurePolicy:
  rules:
  - action: Ignore
    onPodConditions:
    - type: DisruptionTarget
      status: "True"
  - action: FailJob
    onExitCodes:
      containerName: node
      operator: NotIn
      values: {2}
template:
  spec:
{3})",
                     manifest.nodes, kRetries, kRetryCodes, indented(pod_spec(manifest), 4));
}

std::string job_document(const Manifest& manifest) {
  return fmt::format("apiVersion: batch/v1\nkind: Job\n{}spec:\n{}", metadata(manifest.options),
                     indented(job_spec(manifest), 2));
}

// Of a JobSet, also within a runtime. A failed Job starts the whole set again, unless its policy has said that this
// does not help.
std::string set_spec(const Manifest& manifest, std::string_view job_metadata) {
  return fmt::format(R"(network:
  publishNotReadyAddresses: true
failurePolicy:
  maxRestarts: {}
  rules:
  - name: doNotRetry
    action: FailJobSet
    onJobFailureReasons: [PodFailurePolicy]
replicatedJobs:
- name: node
  replicas: 1
  template:
{}    spec:
{})",
                     kRetries, job_metadata, indented(job_spec(manifest), 6));
}

std::string jobset_document(const Manifest& manifest) {
  return fmt::format("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n{}spec:\n{}", metadata(manifest.options),
                     indented(set_spec(manifest, ""), 2));
}

std::string runtime_document(Manifest manifest) {
  manifest.nodes = 1;
  return fmt::format(R"(apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: {}
  labels:
    trainer.kubeflow.org/framework: xoe
spec:
  mlPolicy:
    numNodes: 1
    torch: {{}}
  template:
    spec:
{})",
                     kRuntimeName,
                     indented(set_spec(manifest,
                                       "    metadata:\n      labels:\n"
                                       "        trainer.kubeflow.org/trainjob-ancestor-step: trainer\n"),
                              6));
}

// The parts of the runtime's pods that are this job's: its secret and its volumes.
std::string runtime_patch(const ManifestOptions& options) {
  std::string pod = "volumes:\n" + secret_volume(secret_name(options)) + claim_volumes(claims_of(options));
  if (!options.claims.empty())
    pod += "containers:\n" + list_item("name: node\nvolumeMounts:\n" + claim_mounts(claims_of(options)));
  return fmt::format(R"(runtimePatches:
- manager: xoe.run/print-kubernetes
  trainingRuntimeSpec:
    template:
      spec:
        replicatedJobs:
        - name: node
          template:
            spec:
              template:
                spec:
{})",
                     indented(pod, 18));
}

std::string trainjob_document(const Manifest& manifest) {
  const ManifestOptions& options = manifest.options;
  std::string trainer = fmt::format("image: {}\n", yaml_text(options.image));
  if (!manifest.run_options.empty()) trainer += fmt::format("command: {}\n", yaml_list(run_command(manifest, false)));
  trainer += fmt::format("args: {}\nnumNodes: {}\nnumProcPerNode: {}\n", yaml_list(manifest.program), manifest.nodes,
                         manifest.ranks_per_node);
  if (options.gpus_per_node > 0)
    trainer += fmt::format("resourcesPerNode:\n  limits:\n    nvidia.com/gpu: {}\n", options.gpus_per_node);
  return fmt::format(
      "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n{}spec:\n  runtimeRef:\n    name: {}\n  "
      "trainer:\n{}{}",
      metadata(options), kRuntimeName, indented(trainer, 4), indented(runtime_patch(options), 2));
}

std::string mpi_replica(const Manifest& manifest, std::string_view role, int replicas, const std::string& command) {
  const ManifestOptions& options = manifest.options;
  const bool worker = role == "Worker";
  std::string body = fmt::format("name: node\nimage: {}\n{}", yaml_text(options.image), command);
  if (worker) body += resources(options);
  body += fmt::format("volumeMounts:\n{}{}", kMounts, claim_mounts(claims_of(options)));
  std::string pod = worker ? pod_claims(options) : "";
  pod += "containers:\n" + list_item(body) + fmt::format("volumes:\n{}{}", kVolumes, claim_volumes(claims_of(options)));
  return fmt::format("{}:\n  replicas: {}\n  restartPolicy: {}\n  template:\n    spec:\n{}", role, replicas,
                     worker ? "Never" : "OnFailure", indented(pod, 6));
}

// mpirun starts the ranks, which read its variables; the operator puts keys and the list of hosts into the pods.
std::string mpijob_document(const Manifest& manifest) {
  const auto words =
      joined({"mpirun", "-n", std::to_string(manifest.nodes * manifest.ranks_per_node)}, manifest.program);
  return fmt::format(R"(apiVersion: kubeflow.org/v2beta1
kind: MPIJob
{}spec:
  slotsPerWorker: {}
  runPolicy:
    cleanPodPolicy: Running
    backoffLimit: {}
  mpiReplicaSpecs:
{}{})",
                     metadata(manifest.options), manifest.ranks_per_node, kRetries,
                     indented(mpi_replica(manifest, "Launcher", 1, fmt::format("command: {}\n", yaml_list(words))), 4),
                     indented(mpi_replica(manifest, "Worker", manifest.nodes, ""), 4));
}

std::string documents(const Manifest& manifest) {
  const ManifestOptions& options = manifest.options;
  const std::string secret = secret_document(manifest);
  const std::string devices = claim_template_document(options);
  constexpr const char* kSetLabel = "jobset.sigs.k8s.io/jobset-name";
  switch (options.kind) {
    case ManifestKind::kJob:
      return secret + service_document(options.name) + policy_document(options.name, "batch.kubernetes.io/job-name") +
             devices + job_document(manifest);
    case ManifestKind::kJobSet:
      return secret + policy_document(options.name, kSetLabel) + devices + jobset_document(manifest);
    case ManifestKind::kTrainJob:
      return secret + policy_document(options.name, kSetLabel) + trainjob_document(manifest);
    case ManifestKind::kRuntime: return runtime_document(manifest);
    case ManifestKind::kMpiJob: return devices + mpijob_document(manifest);
    case ManifestKind::kNone: break;
  }
  return "";
}

}  // namespace

bool is_manifest_name(std::string_view name) noexcept {
  constexpr std::size_t kMost = 40;  // of 63: JobSet, Job and pod add their own
  const auto small = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && name.size() <= kMost && small(name.front()) && name.back() != '-' &&
         std::ranges::all_of(name, [&](char c) { return small(c) || digit(c) || c == '-'; });
}

const char* manifest_option(const ManifestOptions& options) noexcept {
  if (!options.image.empty()) return "--image";
  if (options.gpus_per_node != 0) return "--gpus-per-node";
  if (!options.device_class.empty()) return "--device-class";
  if (!options.claims.empty()) return "--claim";
  if (!options.queue.empty()) return "--queue";
  return options.secret_name.empty() ? nullptr : "--secret-name";
}

Status check_manifest(const ManifestOptions& options) {
  if (options.image.empty() && options.kind != ManifestKind::kRuntime)
    return failure(Code::kInvalidArgument, "--print-kubernetes: which image? Add --image REGISTRY/NAME:TAG");
  if (!options.device_class.empty() && options.gpus_per_node == 0)
    return failure(Code::kInvalidArgument, "--device-class {}: how many devices has a pod? Add --gpus-per-node N",
                   options.device_class);
  return {};
}

Result<std::string> print_manifest(const Manifest& manifest) {
  const ManifestOptions& options = manifest.options;
  XOE_TRY(check_manifest(options));
  if (options.kind == ManifestKind::kMpiJob && !manifest.run_options.empty())
    return failure(
        Code::kInvalidArgument,
        "--print-kubernetes mpijob: mpirun starts the ranks, and these options of xoe run have no meaning: {}",
        fmt::join(manifest.run_options, " "));
  if (options.kind == ManifestKind::kTrainJob && !options.device_class.empty())
    return failure(
        Code::kInvalidArgument,
        "--print-kubernetes trainjob: a TrainJob has no claims of devices; leave out --device-class, or print "
        "a jobset");
  std::string comment = manifest.command_line;
  for (auto end = comment.find('\n'); end != std::string::npos; end = comment.find('\n', end + 1))
    comment.insert(end + 1, "# ");
  return fmt::format("# {}\n{}", comment, documents(manifest));
}

}  // namespace xoe::launch
