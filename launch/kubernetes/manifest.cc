#include "launch/kubernetes/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "launch/kubernetes/yaml.h"
#include "launch/remote/shell.h"

namespace xoe::launch {
namespace {

// Exit codes of `xoe run --rendezvous` with which a job is to go on; the last two are the kernel's and the kubelet's.
constexpr std::string_view kRetryHere = "75";
constexpr std::string_view kRetryCodes = "[75, 76, 137, 143]";
constexpr int kUser = 65532;     // of all processes, and the group of the volumes
constexpr int kRetries = 6;      // of pods, as Kubernetes has it itself: with its pauses ten minutes
constexpr int kSetRestarts = 3;  // of the whole set, each with as many retries
constexpr std::string_view kRuntimeName = "xoe-distributed";

std::string job_name(const ManifestOptions& options) { return options.name.empty() ? "train" : options.name; }

// Of what belongs to the job: another kind of job may have the same name.
std::string own_name(const ManifestOptions& options) {
  constexpr const char* kKinds[] = {"", "job", "jobset", "trainjob", "runtime", "mpijob"};
  return fmt::format("{}-{}", job_name(options), kKinds[static_cast<std::size_t>(options.kind)]);
}

std::string secret_name(const ManifestOptions& options) {
  if (!options.secret_name.empty()) return options.secret_name;
  return options.kind == ManifestKind::kRuntime ? "xoe-rendezvous" : own_name(options) + "-rendezvous";
}

// Kubernetes puts variables in the place of $(NAME) in commands, and $ in that of $$.
std::vector<std::string> literal(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (const std::string& word : words) {
    std::string& text = result.emplace_back();
    for (std::size_t i = 0; i < word.size(); ++i) {
      const bool means_more = word[i] == '$' && i + 1 < word.size() && (word[i + 1] == '$' || word[i + 1] == '(');
      text.append(means_more ? 2 : 1, word[i]);
    }
  }
  return result;
}

std::string command_list(const std::vector<std::string>& words) { return yaml_list(literal(words)); }

// What all objects of a job have, and by which they are found.
std::string metadata_of(const ManifestOptions& options, const std::string& name, const std::string& more_labels = "") {
  return fmt::format(
      "metadata:\n  name: {}\n  labels:\n    app.kubernetes.io/name: xoe\n    app.kubernetes.io/instance: {}\n{}", name,
      job_name(options), more_labels.empty() ? "" : indented(more_labels, 4));
}

// It cannot change: pods that come later must have the same.
std::string secret_document(const Manifest& manifest) {
  if (!manifest.options.secret_name.empty()) return "";
  return fmt::format("apiVersion: v1\nkind: Secret\n{}immutable: true\nstringData:\n  secret: {}\n---\n",
                     metadata_of(manifest.options, secret_name(manifest.options)), yaml_text(manifest.secret));
}

// Only pods of the job reach each other. Ranks listen on ports that the kernel chooses.
std::string policy_document(const ManifestOptions& options, const std::string& label) {
  return fmt::format(R"(apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
{0}spec:
  podSelector:
    matchLabels:
      {1}: {2}
  policyTypes: [Ingress]
  ingress:
  - from:
    - podSelector:
        matchLabels:
          {1}: {2}
---
)",
                     metadata_of(options, own_name(options)), label, job_name(options));
}

std::string service_document(const ManifestOptions& options) {
  return fmt::format(R"(apiVersion: v1
kind: Service
{}spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    batch.kubernetes.io/job-name: {}
---
)",
                     metadata_of(options, own_name(options)), job_name(options));
}

// One device of the class for each GPU of a pod.
std::string claim_template_document(const ManifestOptions& options) {
  if (options.device_class.empty()) return "";
  return fmt::format(R"(apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
{}spec:
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
                     metadata_of(options, own_name(options)), yaml_text(options.device_class), options.gpus_per_node);
}

std::string metadata(const ManifestOptions& options) {
  return metadata_of(options, job_name(options),
                     options.queue.empty() ? "" : fmt::format("kueue.x-k8s.io/queue-name: {}\n", options.queue));
}

std::string resources(const ManifestOptions& options) {
  if (options.gpus_per_node == 0) return "";
  if (!options.device_class.empty()) return "resources:\n  claims:\n  - name: gpus\n";
  return fmt::format("resources:\n  limits:\n    nvidia.com/gpu: {}\n", options.gpus_per_node);
}

std::string pod_claims(const ManifestOptions& options) {
  if (options.device_class.empty()) return "";
  return fmt::format("resourceClaims:\n- name: gpus\n  resourceClaimTemplateName: {}\n", own_name(options));
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

std::string claim_mounts(const std::vector<ManifestClaim>& claims) {
  std::string text;
  for (const ManifestClaim& claim : claims)
    text += fmt::format("- name: {}\n  mountPath: {}\n{}", claim.volume(), yaml_text(claim.path),
                        claim.read_only ? "  readOnly: true\n" : "");
  return text;
}

// A claim that is mounted in several places is one volume.
std::string claim_volumes(const std::vector<ManifestClaim>& claims) {
  std::string text;
  for (auto claim = claims.begin(); claim != claims.end(); ++claim)
    if (std::ranges::find(claims.begin(), claim, claim->name, &ManifestClaim::name) == claim)
      text += fmt::format("- name: {}\n  persistentVolumeClaim:\n    claimName: {}\n", claim->volume(), claim->name);
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
  text += fmt::format("command: {}\n", command_list(runtime ? command : joined(command, manifest.program)));
  text += "env:\n";
  // Trainer says how many nodes there are.
  if (!runtime) text += fmt::format("- name: XOE_NODES\n  value: \"{}\"\n", manifest.nodes);
  text += fmt::format("- name: XOE_RENDEZVOUS_SECRET_FILE\n  value: {}/secret\n- name: HOME\n  value: /tmp\n",
                      kSecretFolder);
  text += fmt::format(
      "restartPolicy: Never\nrestartPolicyRules:\n- action: Restart\n  exitCodes:\n    operator: In\n    values: "
      "[{}]\n",
      kRetryHere);
  text += "terminationMessagePolicy: FallbackToLogsOnError\n";  // so that `kubectl describe` shows what xoe run says
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
  if (options.kind == ManifestKind::kJob) text += fmt::format("subdomain: {}\n", own_name(options));
  text += fmt::format("restartPolicy: Never\nterminationGracePeriodSeconds: {}\n", manifest.grace_seconds);
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
                     kSetRestarts, job_metadata, indented(job_spec(manifest), 6));
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
  if (!manifest.run_options.empty())
    trainer += fmt::format("command: {}\n", command_list(run_command(manifest, false)));
  trainer += fmt::format("args: {}\nnumNodes: {}\nnumProcPerNode: {}\n", command_list(manifest.program), manifest.nodes,
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
  return fmt::format(
      R"(apiVersion: kubeflow.org/v2beta1
kind: MPIJob
{}spec:
  slotsPerWorker: {}
  runPolicy:
    cleanPodPolicy: Running
    backoffLimit: {}
  mpiReplicaSpecs:
{}{})",
      metadata(manifest.options), manifest.ranks_per_node, kRetries,
      indented(mpi_replica(manifest, "Launcher", 1, fmt::format("command: {}\n", command_list(words))), 4),
      indented(mpi_replica(manifest, "Worker", manifest.nodes, ""), 4));
}

std::string documents(const Manifest& manifest) {
  const ManifestOptions& options = manifest.options;
  const std::string secret = secret_document(manifest);
  const std::string devices = claim_template_document(options);
  constexpr const char* kSetLabel = "jobset.sigs.k8s.io/jobset-name";
  switch (options.kind) {
    case ManifestKind::kJob:
      return secret + service_document(options) + policy_document(options, "batch.kubernetes.io/job-name") + devices +
             job_document(manifest);
    case ManifestKind::kJobSet:
      return secret + policy_document(options, kSetLabel) + devices + jobset_document(manifest);
    case ManifestKind::kTrainJob: return secret + policy_document(options, kSetLabel) + trainjob_document(manifest);
    case ManifestKind::kRuntime: return runtime_document(manifest);
    case ManifestKind::kMpiJob: return devices + mpijob_document(manifest);
    case ManifestKind::kNone: break;
  }
  return "";
}

Status check_text(const Manifest& manifest) {
  for (const auto* words : {&manifest.run_options, &manifest.program, &manifest.command_line})
    for (const std::string& word : *words)
      for (std::string_view rest = word; !rest.empty(); rest.remove_prefix(utf8_length(rest)))
        if (utf8_length(rest) == 0)
          return failure(Code::kInvalidArgument,
                         "--print-kubernetes: '{}' is no UTF-8 at byte {}, and a manifest holds nothing else",
                         printable_utf8(word), word.size() - rest.size());
  return {};
}

// As a shell takes it, on one line.
std::string comment_word(const std::string& word) {
  bool plain = true;
  std::string quoted = "$'";
  for (std::string_view rest = word; !rest.empty();) {
    const std::string_view character = rest.substr(0, utf8_length(rest));
    rest.remove_prefix(character.size());
    if (is_yaml_character(character)) {
      quoted.append(character == "'" || character == "\\" ? "\\" : "").append(character);
      continue;
    }
    plain = false;
    for (const char c : character) quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return plain ? remote::shell_word(word) : quoted + "'";
}

}  // namespace

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
  XOE_TRY(check_text(manifest));
  std::string comment = "#";
  for (const std::string& word : manifest.command_line) comment += " " + comment_word(word);
  return fmt::format("{}\n{}", comment, documents(manifest));
}

}  // namespace xoe::launch
