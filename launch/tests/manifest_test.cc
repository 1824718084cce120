#include "launch/kubernetes/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "launch/kubernetes/yaml.h"
#include "launch/options/arguments.h"

namespace xoe::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

Manifest manifest_of(ManifestKind kind) {
  Manifest manifest;
  manifest.options.kind = kind;
  manifest.options.image = "registry.example.com/xoe:1";
  manifest.nodes = 3;
  manifest.ranks_per_node = 2;
  manifest.program = {"python", "train.py"};
  manifest.secret = "0123456789abcdef";
  return manifest;
}

std::string printed(const Manifest& manifest) {
  auto text = print_manifest(manifest);
  return text ? *text : "refused: " + text.error().message();
}

TEST(Yaml, TextsAreThemselves) {
  EXPECT_EQ(yaml_text("registry.example.com/xoe"), "registry.example.com/xoe");
  // A colon, a number, a word with a meaning, nothing at all.
  EXPECT_EQ(yaml_text("xoe:1"), "\"xoe:1\"");
  EXPECT_EQ(yaml_text("12"), "\"12\"");
  EXPECT_EQ(yaml_text("1e3"), "\"1e3\"");
  EXPECT_EQ(yaml_text("True"), "\"True\"");
  EXPECT_EQ(yaml_text("no"), "\"no\"");
  EXPECT_EQ(yaml_text(""), "\"\"");
  EXPECT_EQ(yaml_text("a \"b\" \\ \n\x01"), R"("a \"b\" \\ \u000a\u0001")");
  // U+0085, U+2028 and a byte order mark.
  EXPECT_EQ(yaml_text("\xc2\x85\xe2\x80\xa8\xef\xbb\xbf\xf0\x9f\x98\x80"), "\"\\u0085\\u2028\\ufeff\xf0\x9f\x98\x80\"");
  EXPECT_EQ(yaml_text("größer"), "\"größer\"");
  EXPECT_EQ(yaml_list({"xoe", "a, b]"}), R"(["xoe", "a, b]"])");
  EXPECT_EQ(indented("a\n\nb\n", 2), "  a\n\n  b\n");
}

TEST(Manifest, EachPodRunsTheSameCommand) {
  for (const ManifestKind kind : {ManifestKind::kJob, ManifestKind::kJobSet}) {
    Manifest manifest = manifest_of(kind);
    manifest.run_options = {"--restarts", "3"};
    const std::string text = printed(manifest);
    EXPECT_THAT(text,
                HasSubstr(R"(command: ["xoe", "run", "--rendezvous", "auto", "-np", "2", "--restarts", "3", "--", )"
                          R"("python", "train.py"])"));
    EXPECT_THAT(text, HasSubstr("completions: 3\n"));
    EXPECT_THAT(text, HasSubstr("- name: XOE_NODES\n"));
    EXPECT_THAT(text, HasSubstr("values: [75, 76, 137, 143]\n"));
  }
}

TEST(Manifest, TheRuntimeHasNoJobsNumbers) {
  const std::string runtime = printed(manifest_of(ManifestKind::kRuntime));
  EXPECT_THAT(runtime, HasSubstr(R"(command: ["xoe", "run", "--rendezvous", "auto", "--"])"));
  EXPECT_THAT(runtime, Not(HasSubstr("XOE_NODES")));
  EXPECT_THAT(runtime, Not(HasSubstr("0123456789abcdef")));
  const std::string job = printed(manifest_of(ManifestKind::kTrainJob));
  EXPECT_THAT(job, HasSubstr("numNodes: 3\n"));
  EXPECT_THAT(job, HasSubstr("numProcPerNode: 2\n"));
  EXPECT_THAT(job, HasSubstr(R"(args: ["python", "train.py"])"));
  EXPECT_THAT(job, Not(HasSubstr("command:")));
}

TEST(Manifest, SecretOfItsOwnOrOneThatIsThere) {
  Manifest manifest = manifest_of(ManifestKind::kJob);
  EXPECT_THAT(printed(manifest), HasSubstr("kind: Secret\nmetadata:\n  name: train-job-rendezvous\n"));
  EXPECT_THAT(printed(manifest), HasSubstr("secret: \"0123456789abcdef\"\n"));
  manifest.options.secret_name = "kept";
  EXPECT_THAT(printed(manifest), HasSubstr("secretName: kept\n"));
  EXPECT_THAT(printed(manifest), Not(HasSubstr("kind: Secret")));
  EXPECT_THAT(printed(manifest), Not(HasSubstr("0123456789abcdef")));
}

TEST(Manifest, GpusAsAResourceOrAsClaims) {
  Manifest manifest = manifest_of(ManifestKind::kJobSet);
  manifest.options.gpus_per_node = 8;
  EXPECT_THAT(printed(manifest), HasSubstr("nvidia.com/gpu: 8\n"));
  manifest.options.device_class = "gpu.nvidia.com";
  EXPECT_THAT(printed(manifest), HasSubstr("count: 8\n"));
  EXPECT_THAT(printed(manifest), HasSubstr("resourceClaimTemplateName: train-jobset\n"));
  EXPECT_THAT(printed(manifest), Not(HasSubstr("nvidia.com/gpu")));
  manifest.options.gpus_per_node = 0;
  EXPECT_THAT(printed(manifest),
              HasSubstr("--device-class gpu.nvidia.com: how many devices has a pod? Add --gpus-per-node"));
}

TEST(Manifest, RefusesWhatItCannotSay) {
  Manifest manifest = manifest_of(ManifestKind::kMpiJob);
  EXPECT_THAT(printed(manifest), HasSubstr(R"(command: ["mpirun", "-n", "6", "python", "train.py"])"));
  manifest.run_options = {"--restarts", "3"};
  EXPECT_THAT(printed(manifest),
              HasSubstr("refused: --print-kubernetes mpijob: mpirun starts the ranks, and these options of "
                        "xoe run have no meaning: --restarts 3"));
  manifest = manifest_of(ManifestKind::kJob);
  manifest.options.image = "";
  EXPECT_THAT(printed(manifest), HasSubstr("refused: --print-kubernetes: which image?"));
}

TEST(Manifest, TheFirstLineIsACommentWhateverItRepeats) {
  Manifest manifest = manifest_of(ManifestKind::kJob);
  manifest.command_line = {"xoe", "run", "a b", "it's\nlate", "\r", "\xe2\x80\xa8kind: Pod"};
  EXPECT_THAT(printed(manifest), HasSubstr(R"(# xoe run 'a b' $'it\'s\x0alate' $'\x0d' $'\xe2\x80\xa8kind: Pod')"
                                           "\napiVersion"));
}

TEST(Manifest, KubernetesReplacesNothingInWords) {
  for (const ManifestKind kind :
       {ManifestKind::kJob, ManifestKind::kJobSet, ManifestKind::kTrainJob, ManifestKind::kMpiJob}) {
    Manifest manifest = manifest_of(kind);
    manifest.program = {"$HOME $$", "$(HOME)", "$$(X)", "$$$", "1$"};
    EXPECT_THAT(printed(manifest), HasSubstr(R"x("$HOME $$$", "$$(HOME)", "$$$$(X)", "$$$$$", "1$"])x"));
  }
}

TEST(Manifest, BytesThatAreNoTextAreRefused) {
  Manifest manifest = manifest_of(ManifestKind::kJob);
  manifest.program = {"a\xff"};
  EXPECT_THAT(printed(manifest), HasSubstr("refused: --print-kubernetes: 'a\xef\xbf\xbd' is no UTF-8 at byte 1"));
}

TEST(Manifest, JobsOfSeveralKindsMayHaveOneName) {
  std::set<std::string> names;
  for (const ManifestKind kind : {ManifestKind::kJob, ManifestKind::kJobSet, ManifestKind::kTrainJob}) {
    const std::string text = printed(manifest_of(kind));
    const std::size_t at = text.find("kind: Secret\nmetadata:\n  name: ");
    ASSERT_NE(at, std::string::npos);
    EXPECT_TRUE(names.insert(text.substr(at, text.find('\n', at + 33) - at)).second);
    EXPECT_THAT(text, HasSubstr("immutable: true\n"));
    EXPECT_THAT(text, HasSubstr("    app.kubernetes.io/instance: train\n"));
  }
}

TEST(Manifest, AClaimInTwoPlacesIsOneVolume) {
  Manifest manifest = manifest_of(ManifestKind::kJob);
  manifest.options.claims = {"data:/data", "my.runs:/runs", "data:/more:ro"};
  const std::string text = printed(manifest);
  EXPECT_EQ(text.find("claimName: data\n"), text.rfind("claimName: data\n"));
  EXPECT_THAT(text, HasSubstr("- name: claim-my-runs\n        persistentVolumeClaim:\n          claimName: my.runs\n"));
  EXPECT_THAT(text, HasSubstr("mountPath: /more\n          readOnly: true\n"));
}

TEST(Manifest, Names) {
  for (const char* name : {"a", "train", "a-1", "a23456789012345678901234567890123456789x"})
    EXPECT_TRUE(is_manifest_name(name));
  for (const char* name : {"", "1a", "-a", "a-", "A", "a.b", "a_b", "a b", "a23456789012345678901234567890123456789xy"})
    EXPECT_FALSE(is_manifest_name(name)) << name;
}

Result<RunArguments> parse(std::vector<std::string_view> arguments) { return parse_run_arguments(arguments); }

std::string refusal(const std::vector<std::string_view>& arguments) {
  const auto run = parse(arguments);
  return run ? "accepted" : run.error().message();
}

TEST(ManifestArguments, WhatIsThePodsIsPassedOn) {
  const auto run = parse({"--print-kubernetes",
                          "jobset",
                          "--image",
                          "i",
                          "--nodes",
                          "3",
                          "-np",
                          "2",
                          "--restarts=4",
                          "--name",
                          "big",
                          "--claim",
                          "data:/data",
                          "--claim",
                          "runs:/runs",
                          "--gpus-per-node",
                          "8",
                          "--queue",
                          "team",
                          "--secret-name",
                          "kept",
                          "--env",
                          "A=1",
                          "--",
                          "prog",
                          "--nodes",
                          "9"});
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->manifest.kind, ManifestKind::kJobSet);
  EXPECT_EQ(run->manifest.name, "big");
  EXPECT_EQ(run->manifest.gpus_per_node, 8);
  EXPECT_EQ(run->options.rendezvous.nodes, 3);
  EXPECT_THAT(run->manifest.claims, testing::ElementsAre("data:/data", "runs:/runs"));
  EXPECT_THAT(run->own_words, testing::ElementsAre("--restarts=4", "--env", "A=1"));
  EXPECT_THAT(run->options.command, testing::ElementsAre("prog", "--nodes", "9"));
}

TEST(ManifestArguments, WhatIsMissingOrWrong) {
  EXPECT_THAT(refusal({"--image", "i", "prog"}), HasSubstr("--image is for manifests: add --print-kubernetes KIND"));
  EXPECT_THAT(refusal({"--name", "a", "prog"}), HasSubstr("--name is for manifests"));
  EXPECT_THAT(refusal({"--print-kubernetes", "pod", "prog"}), HasSubstr("job, jobset, trainjob, runtime or mpijob"));
  EXPECT_THAT(refusal({"--print-kubernetes", "job", "--image", "i", "prog"}),
              HasSubstr("how many pods? Add --nodes N"));
  EXPECT_THAT(refusal({"--print-kubernetes", "job", "--nodes", "2", "prog"}), HasSubstr("which image?"));
  EXPECT_THAT(refusal({"--print-kubernetes", "job", "--nodes", "2", "--image", "i", "-H", "a", "prog"}),
              HasSubstr("-H"));
  for (const char* claim : {"data", "data:", "data:x", ":/data", "D:/data", "data:/", "data:/a:b", "data:/a:ro:"})
    EXPECT_THAT(refusal({"--print-kubernetes", "job", "--nodes", "2", "--image", "i", "--claim", claim, "prog"}),
                HasSubstr("such as data:/data"));
  EXPECT_THAT(refusal({"--print-kubernetes", "job", "--nodes", "2", "--image", "i", "--name", "A", "prog"}),
              HasSubstr("small letters"));
  EXPECT_EQ(refusal({"--print-kubernetes", "runtime"}), "accepted");
  for (const auto& [words, what] : std::vector<std::pair<std::vector<std::string_view>, const char*>>{
           {{"--claim", "data:/dev"}, "pods have their own /dev/shm"},
           {{"--claim", "data:/tmp"}, "pods have their own /tmp"},
           {{"--claim", "data:/tmp/"}, "pods have their own /tmp"},
           {{"--claim", "data:/a", "--claim", "runs:/a"}, "two volumes at /a"},
           {{"--claim", "a.b:/a", "--claim", "a-b:/b"}, "too alike"},
           {{"--queue", "a b"}, "a LocalQueue"},
           {{"--image", "a b"}, "without blanks"},
           {{"-np", "513"}, "at most 512 ranks"},
           {{"--node-rank", "1"}, "--node-rank with --print-kubernetes: every pod gets the same command"},
           {{"--rendezvous", "host"}, "--rendezvous with"},
           {{"--dry-run"}, "--dry-run with"},
           {{"--nodes", "0"}, "at least 1"}}) {
    std::vector<std::string_view> all = {"--print-kubernetes", "job", "--nodes", "2", "--image", "i"};
    all.insert(all.end(), words.begin(), words.end());
    all.emplace_back("prog");
    EXPECT_THAT(refusal(all), HasSubstr(what));
  }
  EXPECT_THAT(refusal({"--print-kubernetes", "runtime", "--name", "a"}), HasSubstr("--name is the TrainJob's"));
}

}  // namespace
}  // namespace xoe::launch
