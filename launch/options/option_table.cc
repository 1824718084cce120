#include "launch/options/option_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/nearest_word.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/command_line/command.h"
#include "launch/options/horovod_settings.h"
#include "launch/remote/host_list.h"

namespace xoe::launch {
namespace {

using remote::ConnectOptions;

tl::unexpected<Error> wrong_form() { return tl::unexpected(Error(Code::kInvalidArgument, "")); }

// The member in the part of RunArguments that has it.
template <class Owner, class T>
T& member_of(RunArguments& run, T Owner::*member) {
  if constexpr (std::is_same_v<Owner, RunArguments>) return run.*member;
  if constexpr (std::is_same_v<Owner, RunOptions>) return run.options.*member;
  if constexpr (std::is_same_v<Owner, HostOptions>) return run.options.where.*member;
  if constexpr (std::is_same_v<Owner, ConnectOptions>) return run.options.where.connect.*member;
  if constexpr (std::is_same_v<Owner, ManifestOptions>) return run.manifest.*member;
  if constexpr (std::is_same_v<Owner, RendezvousOptions>) return run.options.rendezvous.*member;
  if constexpr (std::is_same_v<Owner, ElasticOptions>) return run.options.elastic.*member;
}

template <auto member, bool value>
Status set_flag(RunArguments& run, std::string_view) {
  member_of(run, member) = value;
  return {};
}

template <auto member>
Status set_text(RunArguments& run, std::string_view text) {
  member_of(run, member) = text;
  return {};
}

template <auto member, int low, int high>
Status set_integer(RunArguments& run, std::string_view text) {
  const auto number = parse_integer(text);
  if (!number || *number < low || *number > high) return wrong_form();
  member_of(run, member) = static_cast<int>(*number);
  return {};
}

template <auto member, int least_milliseconds>
Status set_seconds(RunArguments& run, std::string_view text) {
  const auto seconds = parse_number(text);
  if (!seconds || !(*seconds >= least_milliseconds * 1e-3) || *seconds > 1e9) return wrong_form();
  member_of(run, member) = std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(*seconds));
  return {};
}

// The value whose name the text is.
template <auto member, const auto& choices>
Status set_choice(RunArguments& run, std::string_view text) {
  const auto choice = std::ranges::find(choices, text, [](const auto& one) { return one.first; });
  if (choice == choices.end()) return wrong_form();
  member_of(run, member) = choice->second;
  return {};
}

constexpr int kMostRanks = kMaxRanksPerHost * kMostMembers;
constexpr std::size_t kMostVariables = std::size_t{16} << 20;  // bytes of a file

using Name = std::string_view;
constexpr std::array kMappings{std::pair(Name("slot"), MapBy::kSlot), std::pair(Name("node"), MapBy::kNode),
                               std::pair(Name("socket"), MapBy::kSocket)};
constexpr std::array kBindings{std::pair(Name("core"), Binding::kCore), std::pair(Name("socket"), Binding::kSocket),
                               std::pair(Name("numa"), Binding::kNuma), std::pair(Name("none"), Binding::kNone)};

constexpr std::array kManifestKinds{
    std::pair(Name("job"), ManifestKind::kJob), std::pair(Name("jobset"), ManifestKind::kJobSet),
    std::pair(Name("trainjob"), ManifestKind::kTrainJob), std::pair(Name("runtime"), ManifestKind::kRuntime),
    std::pair(Name("mpijob"), ManifestKind::kMpiJob)};

constexpr std::string_view kBackends = "auto|shm|gloo|mpi|nccl|hierarchical";

Status set_backend(RunArguments& run, std::string_view text) {
  const auto known = split_text(kBackends, '|');
  if (std::ranges::find(known, text) == known.end()) return wrong_form();
  run.options.backend = text;
  return {};
}

Status set_size(RunArguments& run, std::string_view text) {
  const auto size = parse_integer(text);
  if (!size || *size > 1'000'000'000 || *size < -1'000'000'000) return wrong_form();
  if (*size < 1) return failure(Code::kInvalidArgument, "{}", "a job has at least 1 rank");
  run.options.size = static_cast<int>(*size);
  return {};
}

// `-m MODULE`; apply_options() takes the words behind it as the module's.
Status set_module(RunArguments& run, std::string_view text) {
  run.options.module = true;
  run.options.command = {"python", "-m", std::string(text)};
  return {};
}

// "0", "0,2", "4-7", or "none".
Status set_only_ranks(RunArguments& run, std::string_view text) {
  auto& ranks = run.options.only_ranks.emplace();
  if (text == "none") return {};
  for (const std::string& part : split_text(text, ',')) {
    const auto dash = part.find('-');
    const auto first = parse_integer(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_integer(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMostRanks) return wrong_form();
    for (auto rank = *first; rank <= *last; ++rank) ranks.push_back(static_cast<int>(rank));
  }
  return {};
}

Status set_devices(RunArguments& run, std::string_view text) {
  run.options.devices = split_text(text, ',');
  for (const std::string& device : run.options.devices)
    if (device.empty()) return wrong_form();
  return {};
}

Status set_resize(RunArguments& run, std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return wrong_form();
  const auto fd = parse_integer(text.substr(0, colon));
  const auto most = parse_integer(text.substr(colon + 1));
  if (!fd || *fd < 3 || *fd > 1 << 20 || !most || *most < 1 || *most > 1 << 20) return wrong_form();
  if (::fcntl(static_cast<int>(*fd), F_GETFD) < 0)
    return failure(Code::kInvalidArgument, "descriptor {} is not open", *fd);
  run.options.resize_fd = static_cast<int>(*fd);
  run.options.most_ranks = static_cast<int>(*most);
  return {};
}

Status set_notice(RunArguments& run, std::string_view text) {
  if (text != "aws" && text != "gcp" && text != "azure" && !(text.starts_with("file:") && text.size() > 5))
    return wrong_form();
  run.options.elastic.notices.emplace_back(text);
  return {};
}

// "10,300".
Status set_cooldown(RunArguments& run, std::string_view text) {
  const auto separator = text.find(',');
  if (separator == std::string_view::npos) return wrong_form();
  const auto low = parse_number(text.substr(0, separator)), high = parse_number(text.substr(separator + 1));
  constexpr double kMost = 1e6;
  if (!low || !high || !(*low >= 0) || !(*high >= 0) || *low > kMost || *high > kMost) return wrong_form();
  const auto seconds = [](double number) {
    return std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(number));
  };
  run.options.elastic.cooldown = seconds(*low);
  run.options.elastic.longest_cooldown = seconds(*high);
  return {};
}

Status set_hosts(RunArguments& run, std::string_view text) {
  XOE_ASSIGN(run.options.where.hosts, remote::parse_hosts(text));
  return {};
}

Status add_variable(RunArguments& run, std::string_view text) {
  const auto at = text.find('=');
  if (at == 0) return wrong_form();
  if (at == std::string_view::npos)
    run.options.pass_env.emplace_back(text);
  else
    run.options.env.emplace_back(text.substr(0, at), text.substr(at + 1));
  return {};
}

template <auto member>
Status set_manifest_name(RunArguments& run, std::string_view text) {
  if (!is_manifest_name(text)) return wrong_form();
  member_of(run, member) = text;
  return {};
}

template <auto member>
Status set_object_name(RunArguments& run, std::string_view text) {
  if (!is_object_name(text)) return wrong_form();
  member_of(run, member) = text;
  return {};
}

Status add_claim(RunArguments& run, std::string_view text) {
  if (!is_claim(text)) return wrong_form();
  run.manifest.claims.emplace_back(text);
  return {};
}

// A file or a pipe.
Result<std::string> read_all(const std::string& path, std::size_t most) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.valid()) return failure(Code::kInvalidArgument, "cannot read it: {}", errno_text(errno));
  std::string all;
  std::array<char, 65536> part;
  while (true) {
    const auto count = ::read(file.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure(Code::kInvalidArgument, "cannot read it: {}", errno_text(errno));
    if (count == 0) return all;
    all.append(part.data(), static_cast<std::size_t>(count));
    if (all.size() > most) return failure(Code::kInvalidArgument, "it is larger than {} MiB", most >> 20);
  }
}

Status add_variables(RunArguments& run, std::string_view path) {
  XOE_ASSIGN(const std::string text, read_all(std::string(path), kMostVariables));
  for (const std::string& entry : split_text(text, '\0')) {
    const auto at = entry.find('=');
    if (entry.empty()) continue;
    if (at == 0 || at == std::string::npos)
      return failure(Code::kInvalidArgument, "expected NAME=VALUE, each ended by a zero byte, as env -0 prints them");
    run.options.env.emplace_back(entry.substr(0, at), entry.substr(at + 1));
  }
  return {};
}

Status set_encrypt(RunArguments& run, std::string_view /*text*/) {
  run.options.env.emplace_back("XOE_ENCRYPT", "1");
  return {};
}

Status set_jax(RunArguments& run, std::string_view /*text*/) {
  run.options.env.emplace_back("XOE_JAX", "1");
  return {};
}

constexpr std::string_view kGpusName = "--gpus";
constexpr std::string_view kTypeName = "--type";
constexpr std::string_view kMemoryName = "--memory";
constexpr std::string_view kSameNvlinkName = "--same-nvlink";
constexpr std::string_view kAnyHostName = "--any-host";
constexpr std::string_view kForName = "--for";
constexpr std::string_view kPriorityName = "--priority";
constexpr std::string_view kExtraPriorityName = "--extra-priority";
constexpr std::string_view kWaitName = "--wait";
constexpr std::string_view kPurposeName = "--purpose";
constexpr std::string_view kOrCpuName = "--or-cpu";
constexpr std::string_view kCheckpointSignalName = "--checkpoint-signal";

// `xoe pool run` checks it.
template <const std::string_view& name>
Status pass_to_pool(RunArguments& run, std::string_view text) {
  run.options.pool_words.emplace_back(name);
  if (!text.empty()) run.options.pool_words.emplace_back(text);
  return {};
}

constexpr std::string_view kRankOptions = "Ranks";
constexpr std::string_view kElasticOptions = "Ranks and hosts that come and go";
constexpr std::string_view kHostOptions = "Hosts";
constexpr std::string_view kRendezvousOptions = "One xoe run on each host";
constexpr std::string_view kSettingOptions = "Settings";
constexpr std::string_view kEndOptions = "Output and end";
constexpr std::string_view kHostCommandOptions = "A command for each host";

constexpr std::array kOptions{
    Option{.group = kRankOptions,
           .names = {"-np", "-n", "--np"},
           .others = {"--num-proc"},
           .value = "N",
           .expected = "a number of ranks",
           .what = "number of ranks, with --rendezvous of each member (default: one for each slot of the hosts)",
           .apply = set_size},
    Option{.group = kRankOptions,
           .names = {"-m"},
           .others = {"--module"},
           .value = "MODULE",
           .expected = "a module of Python",
           .what = "run `python -m MODULE`; the words behind it are the module's",
           .apply = set_module},
    Option{.group = kRankOptions,
           .names = {"--bind-to"},
           .value = "WHAT",
           .choices = "none|core|socket|numa",
           .what = "each rank may run on every core (default), on its own share of the cores, on the cores of one "
                   "socket, or near one memory: its GPU's, or from the network interface's on",
           .apply = set_choice<&RunOptions::binding, kBindings>},
    Option{.group = kRankOptions,
           .names = {"--map-by"},
           .value = "WHAT",
           .choices = "slot|node|socket",
           .what = "fill a host's slots first (default); hosts by turns; sockets by turns",
           .apply = set_choice<&HostOptions::map_by, kMappings>},
    Option{.group = kRankOptions,
           .names = {"--oversubscribe"},
           .what = "more ranks than slots may run",
           .apply = set_flag<&HostOptions::oversubscribe, true>},
    Option{.group = kRankOptions,
           .names = {"--no-gpu-binding"},
           .what = "leave CUDA_VISIBLE_DEVICES as it is",
           .apply = set_flag<&HostOptions::bind_gpus, false>},
    Option{.group = kRankOptions,
           .names = {"--devices"},
           .value = "LIST",
           .expected = "names of GPUs",
           .what = "GPUs, by UUID, one for each rank in their order, which sees no other (CUDA_VISIBLE_DEVICES)",
           .apply = set_devices},
    Option{.group = kRankOptions,
           .names = {"--resize"},
           .value = "FD:MOST",
           .expected = "an open descriptor and a number of ranks, such as 5:8",
           .what = "the program at the other end of this socket changes the number of ranks, up to MOST; for `xoe run "
                   "--pool`",
           .apply = set_resize},
    Option{.group = kElasticOptions,
           .names = {"--min-np"},
           .others = {"--min-num-proc"},
           .value = "N",
           .expected = "a number of ranks",
           .what = "go on without ranks and hosts that fail, while N ranks are left; with --restarts ranks come back",
           .apply = set_integer<&ElasticOptions::least, 1, kMaxRanksPerHost>},
    Option{
        .group = kElasticOptions,
        .names = {"--max-np"},
        .others = {"--max-num-proc"},
        .value = "N",
        .expected = "a number of ranks",
        .what = "start further ranks where there are slots, up to N (default: -np; with a discovery script all slots)",
        .apply = set_integer<&ElasticOptions::most, 1, kMaxRanksPerHost>},
    Option{.group = kElasticOptions,
           .names = {"--host-discovery-script"},
           .value = "PROGRAM",
           .expected = "a program",
           .what = "it prints the hosts that there are now, HOST or HOST:SLOTS a line, and is asked again each second",
           .apply = set_text<&ElasticOptions::discovery>},
    Option{.group = kElasticOptions,
           .names = {"--slots-per-host"},
           .others = {"--slots"},
           .value = "N",
           .expected = "a number of slots",
           .what = "of hosts that the script prints without a number (default: 1)",
           .apply = set_integer<&ElasticOptions::slots_per_host, 1, kMaxRanksPerHost>},
    Option{.group = kElasticOptions,
           .names = {"--blacklist-cooldown-range"},
           .value = "FIRST,LONGEST",
           .expected = "two numbers of seconds, such as 10,300",
           .what = "for how long a host that failed is left out: first, and at most; it doubles (default: 10,300)",
           .pair = true,
           .apply = set_cooldown},
    Option{.group = kElasticOptions,
           .names = {"--notice"},
           .value = "SOURCE",
           .expected = "aws, gcp, azure or file:PATH",
           .what = "each host asks there whether it is to be taken away, and leaves in time (`xoe notice`); repeatable",
           .apply = set_notice},
    Option{.group = kElasticOptions,
           .names = {"--change-interval"},
           .value = "S",
           .expected = "seconds",
           .what = "least time from one change of the ranks to the next that join (default: 1)",
           .apply = set_seconds<&ElasticOptions::interval, 0>},
    Option{.group = kElasticOptions,
           .names = {"--elastic-timeout"},
           .value = "S",
           .expected = "seconds",
           .what = "wait so long at the start until there are slots for --min-np ranks (default: 600)",
           .apply = set_seconds<&ElasticOptions::timeout, 1>},
    Option{.group = kPoolOptions,
           .names = {"--pool"},
           .what = "take GPUs from the team's pool (xoe pool), run one rank on each, and give them back",
           .apply = set_flag<&RunOptions::pool, true>},
    Option{.group = kPoolOptions,
           .names = {"--gpus"},
           .value = "N|MIN:MAX",
           .expected = "a number of GPUs",
           .what = "how many; MIN:MAX: begin with MIN or more, leave those beyond MIN when a more important lease "
                   "waits, and take them again",
           .apply = pass_to_pool<kGpusName>},
    Option{.group = kPoolOptions,
           .names = {"--type"},
           .value = "NAME",
           .expected = "a name",
           .what = "part of their name, such as t4",
           .apply = pass_to_pool<kTypeName>},
    Option{.group = kPoolOptions,
           .names = {"--memory"},
           .value = "BYTES",
           .expected = "a size",
           .what = "of each at least, such as 16G",
           .apply = pass_to_pool<kMemoryName>},
    Option{.group = kPoolOptions,
           .names = {"--same-nvlink"},
           .what = "NVLinks between those that are needed",
           .apply = pass_to_pool<kSameNvlinkName>},
    Option{.group = kPoolOptions,
           .names = {"--any-host"},
           .what = "of any hosts, reached as with -H; else of this one",
           .apply = pass_to_pool<kAnyHostName>},
    Option{.group = kPoolOptions,
           .names = {"--for"},
           .value = "TIME",
           .expected = "a time",
           .what = "for how long, such as 4h",
           .apply = pass_to_pool<kForName>},
    Option{.group = kPoolOptions,
           .names = {"--priority"},
           .value = "N",
           .expected = "a number",
           .what = "more goes first; your user has a limit",
           .apply = pass_to_pool<kPriorityName>},
    Option{.group = kPoolOptions,
           .names = {"--extra-priority"},
           .value = "N",
           .expected = "a number",
           .what = "of the GPUs beyond MIN (default: one less)",
           .apply = pass_to_pool<kExtraPriorityName>},
    Option{.group = kPoolOptions,
           .names = {"--wait"},
           .what = "in the queue, until there are GPUs",
           .apply = pass_to_pool<kWaitName>},
    Option{.group = kPoolOptions,
           .names = {"--purpose"},
           .value = "TEXT",
           .expected = "a text",
           .what = "one line for the others",
           .apply = pass_to_pool<kPurposeName>},
    Option{.group = kPoolOptions,
           .names = {"--or-cpu"},
           .what = "without a GPU to give, run the ranks on the CPU",
           .apply = pass_to_pool<kOrCpuName>},
    Option{.group = kPoolOptions,
           .names = {"--checkpoint-signal"},
           .value = "USR1|USR2",
           .expected = "a signal",
           .what = "signal for the ranks when the lease must give way",
           .apply = pass_to_pool<kCheckpointSignalName>},
    Option{.group = kHostOptions,
           .names = {"-H", "--hosts"},
           .value = "A:4,B:4",
           .expected = "hosts",
           .what = "hosts and their slots, reached by ssh without a password (default: those that Slurm, PBS or LSF "
                   "has given to the job)",
           .apply = set_hosts},
    Option{.group = kHostOptions,
           .names = {"--hostfile"},
           .others = {"-hostfile"},
           .value = "FILE",
           .expected = "a file",
           .what = "the same, a line for each: `host slots=4 max-slots=8` or `host:4`",
           .apply = set_text<&HostOptions::hostfile>},
    Option{.group = kHostOptions,
           .names = {"--check"},
           .what = "check every host and print the result; start nothing",
           .apply = set_flag<&HostOptions::check, true>},
    Option{.group = kHostOptions,
           .names = {"--dry-run"},
           .what = "print what would be started; connect to no host",
           .apply = set_flag<&HostOptions::dry_run, true>},
    Option{.group = kHostOptions,
           .names = {"--start-timeout"},
           .value = "S",
           .expected = "seconds",
           .what = "until all hosts have answered (default: 30)",
           .apply = set_seconds<&ConnectOptions::start_timeout, 1>},
    Option{.group = kHostOptions,
           .names = {"--host-timeout"},
           .value = "S",
           .expected = "seconds",
           .what = "until a silent host counts as lost (default: XOE_HOST_TIMEOUT or 10)",
           .apply = set_seconds<&ConnectOptions::host_timeout, 100>},
    Option{.group = kHostCommandOptions,
           .names = {"--ssh-port"},
           .others = {"-p"},
           .value = "N",
           .expected = "1 to 65535",
           .what = "port of the hosts' ssh servers",
           .apply = set_integer<&ConnectOptions::ssh_port, 1, 65535>},
    Option{.group = kHostCommandOptions,
           .names = {"--ssh-identity-file"},
           .others = {"-i"},
           .value = "FILE",
           .expected = "the file of a key",
           .what = "private key",
           .apply = set_text<&ConnectOptions::ssh_identity_file>},
    Option{.group = kHostCommandOptions,
           .names = {"--ssh-command"},
           .value = "COMMAND",
           .expected = "a command",
           .what = "in place of ssh; may have options",
           .apply = set_text<&ConnectOptions::ssh_command>},
    Option{.group = kHostCommandOptions,
           .names = {"--launch-agent"},
           .value = "COMMAND",
           .expected = "a command",
           .what = "instead of ssh: COMMAND HOST PROGRAM ARGUMENTS... runs a program there",
           .apply = set_text<&ConnectOptions::launch_agent>},
    Option{.group = kHostCommandOptions,
           .names = {"--fan-out"},
           .value = "N",
           .expected = "0 (no tree) to 4096 hosts",
           .what = "with more hosts than this (default: 64) agents reach some of them for the launcher; 0: never",
           .apply = set_integer<&HostOptions::fan_out, 0, 4096>},
    Option{.group = kHostCommandOptions,
           .names = {"--xoe-path"},
           .value = "FILE",
           .expected = "the path of xoe on the hosts",
           .what = "of xoe on the hosts (default: as here)",
           .apply = set_text<&ConnectOptions::xoe_path>},
    Option{.group = kRendezvousOptions,
           .names = {"--rendezvous"},
           .value = "auto|HOST[:PORT]",
           .expected = "auto, or the host of member 0, such as node1:29500",
           .what = "the same command runs on every host, or in every pod, with -np ranks each; member 0 leads. auto: "
                   "which member this is and where member 0 is come from the environment (Kubeflow, JAX, "
                   "LeaderWorkerSet, Indexed Job and JobSet, Slurm)",
           .apply = set_text<&RendezvousOptions::at>},
    Option{.group = kRendezvousOptions,
           .names = {"--node-rank"},
           .others = {"--node_rank"},
           .value = "I",
           .expected = "a number from 0",
           .what = "which member this is (default: from the environment)",
           .apply = set_integer<&RendezvousOptions::node_rank, 0, kMostMembers - 1>},
    Option{.group = kRendezvousOptions,
           .names = {"--nodes"},
           .others = {"--nnodes"},
           .value = "N",
           .expected = "how many members or pods there are, at least 1",
           .what = "how many there are (default: from the environment, or XOE_NODES)",
           .apply = set_integer<&RendezvousOptions::nodes, 1, kMostMembers>},
    Option{.group = kRendezvousOptions,
           .names = {"--rendezvous-secret"},
           .value = "FILE",
           .expected = "a file",
           .what = "what only the members know (default: XOE_RENDEZVOUS_SECRET_FILE)",
           .apply = set_text<&RendezvousOptions::secret_file>},
    Option{.group = kRendezvousOptions,
           .names = {"--rendezvous-timeout"},
           .value = "S",
           .expected = "seconds",
           .what = "to wait for member 0's name, for it, and for all members (default: 300)",
           .apply = set_seconds<&RendezvousOptions::timeout, 1>},
    Option{.group = kManifestOptions,
           .names = {"--print-kubernetes"},
           .value = "KIND",
           .choices = "job|jobset|trainjob|runtime|mpijob",
           .what =
               "print the manifest with which Kubernetes runs this command in --nodes pods, for `kubectl apply -f -`; "
               "start nothing. runtime: what a trainjob stands on, once for a cluster",
           .apply = set_choice<&ManifestOptions::kind, kManifestKinds>},
    Option{.group = kManifestOptions,
           .names = {"--image"},
           .value = "IMAGE",
           .expected = "an image",
           .what = "with xoe and the program",
           .apply = set_text<&ManifestOptions::image>},
    Option{.group = kManifestOptions,
           .names = {"--name"},
           .value = "NAME",
           .expected = "small letters, digits and dashes, at most 40, the first a letter",
           .what = "of the job (default: train)",
           .apply = set_manifest_name<&ManifestOptions::name>},
    Option{.group = kManifestOptions,
           .names = {"--gpus-per-node"},
           .value = "N",
           .expected = "1 to 1024",
           .what = "GPUs of each pod (nvidia.com/gpu)",
           .apply = set_integer<&ManifestOptions::gpus_per_node, 1, 1024>},
    Option{.group = kManifestOptions,
           .names = {"--device-class"},
           .value = "CLASS",
           .expected = "a DeviceClass",
           .what = "claim them by dynamic resource allocation, such as gpu.nvidia.com",
           .apply = set_text<&ManifestOptions::device_class>},
    Option{.group = kManifestOptions,
           .names = {"--claim"},
           .value = "NAME:PATH[:ro]",
           .expected = "a PersistentVolumeClaim and where pods see it, such as data:/data or data:/data:ro",
           .what = "a volume that all pods share, for data and checkpoints; ro: which they only read; may be repeated",
           .apply = add_claim},
    Option{.group = kManifestOptions,
           .names = {"--queue"},
           .value = "NAME",
           .expected = "a LocalQueue",
           .what = "of Kueue",
           .apply = set_object_name<&ManifestOptions::queue>},
    Option{.group = kManifestOptions,
           .names = {"--secret-name"},
           .value = "NAME",
           .expected = "a Secret's name: small letters, digits, dashes and points",
           .what = "a Secret that is there, whose key `secret` only the job's pods know (default: the manifest has one "
                   "with a random key)",
           .apply = set_object_name<&ManifestOptions::secret_name>},
    Option{.group = kSettingOptions,
           .names = {"--backend"},
           .value = "NAME",
           .choices = kBackends,
           .what = "what ranks talk over",
           .apply = set_backend},
    Option{.group = kSettingOptions,
           .names = {"--network-interface"},
           .others = {"--network-interfaces"},
           .value = "LIST",
           .expected = "an interface or a network",
           .what = "names or networks (ib0, 10.1.0.0/16) that ranks talk over",
           .apply = set_text<&HostOptions::network_interface>},
    Option{.group = kSettingOptions,
           .names = {"--encrypt"},
           .what = "encrypt tensors between hosts; other messages always are",
           .apply = set_encrypt},
    Option{.group = kSettingOptions,
           .names = {"--jax"},
           .what = "let JAX's own programs (psum, sharded arrays) run on Xoe: jax.distributed.initialize() needs no "
                   "arguments",
           .apply = set_jax},
    Option{.group = kSettingOptions,
           .names = {"--env"},
           .value = "NAME[=VALUE]",
           .expected = "NAME=VALUE or NAME",
           .what = "set a variable for all ranks, or pass ours on; may be repeated",
           .apply = add_variable},
    Option{.group = kSettingOptions,
           .names = {"--env-file"},
           .value = "FILE",
           .expected = "a file",
           .what = "set the variables of a file, as env -0 prints them",
           .apply = add_variables},
    Option{.group = kSettingOptions,
           .names = {"--config-file"},
           .value = "FILE",
           .expected = "a file",
           .what = "options from TOML (`np = 4`), settings from Horovod's YAML",
           .apply = set_text<&RunArguments::config_file>},
    Option{.group = kEndOptions,
           .names = {"--output-dir"},
           .others = {"--output-filename"},
           .value = "DIR",
           .expected = "a folder",
           .what = "also write DIR/rank.N/stdout and DIR/rank.N/stderr",
           .apply = set_text<&RunOptions::output_dir>},
    Option{.group = kEndOptions,
           .names = {"--only-rank"},
           .others = {"--only-ranks"},
           .value = "LIST",
           .expected = "ranks, such as 0, 0,4 or 0-3, or none",
           .what = "show the output of these ranks alone (0; 0,4; 0-3; none); of another one that fails the report has "
                   "the last lines, and --output-dir keeps all",
           .apply = set_only_ranks},
    Option{.group = kEndOptions,
           .names = {"--tag-output"},
           .what = "\"[N] \" before each line: the default",
           .apply = set_flag<&RunOptions::tag_output, true>},
    Option{.group = kEndOptions,
           .names = {"--no-tag-output"},
           .what = "no \"[N] \" before each line",
           .apply = set_flag<&RunOptions::tag_output, false>},
    Option{.group = kEndOptions,
           .names = {"--panel"},
           .what =
               "a row for each rank at the bottom of the terminal: how fast it is, what it waits for, its last line; "
               "the default with several ranks, unless NO_COLOR is set or TERM is dumb",
           .apply = set_flag<&RunOptions::wants_panel, true>},
    Option{.group = kEndOptions,
           .names = {"--no-panel"},
           .what = "only lines, and rank 0's progress bar",
           .apply = set_flag<&RunOptions::wants_panel, false>},
    Option{.group = kEndOptions,
           .names = {"--timeout"},
           .value = "S",
           .expected = "seconds",
           .what = "end the whole job after so many seconds, with exit code 124",
           .apply = set_seconds<&RunOptions::timeout, 1>},
    Option{.group = kEndOptions,
           .names = {"--restarts"},
           .others = {"--reset-limit"},
           .value = "N",
           .expected = "how often failed ranks are restarted, 0 to 10000",
           .what = "restart ranks that fail, N times in all; training goes on from where it last committed "
                   "(xoe.torch.elastic) or wrote a checkpoint",
           .apply = set_integer<&RunOptions::restarts, 0, kMostRestarts>},
    Option{.group = kEndOptions,
           .names = {"--grace"},
           .value = "S",
           .expected = "seconds",
           .what = "between SIGTERM and SIGKILL when a job is ended (default: 5)",
           .apply = set_seconds<&RunOptions::grace, 0>},
    Option{.group = kEndOptions,
           .names = {"--signal-limit"},
           .value = "S",
           .expected = "seconds",
           .what = "after SIGTERM or SIGHUP: how long ranks may still run when another has ended (default: 300)",
           .apply = set_seconds<&RunOptions::signal_limit, 0>},
    Option{.group = kEndOptions,
           .names = {"-h", "--help"},
           .what = "print this help",
           .apply = set_flag<&RunArguments::help, true>},
    Option{.group = kEndOptions,
           .names = {"--version"},
           .what = "print the version of Xoe",
           .apply = set_flag<&RunArguments::version, true>}};

std::string expected_text(const Option& option, std::string_view value) {
  if (option.choices.empty()) return fmt::format("expected {}", option.expected);
  const auto words = split_text(option.choices, '|');
  const std::vector<std::string_view> views(words.begin(), words.end());
  return fmt::format("expected {}{}", command_line::one_of(words), did_you_mean(value, views));
}

}  // namespace

bool Option::has_name(std::string_view name) const {
  const auto among = [name](const Names& list) { return std::ranges::find(list, name) != list.end(); };
  return !name.empty() && (among(names) || among(others));
}

std::span<const Option> all_options() noexcept { return kOptions; }

const Option* find_option(std::string_view name) noexcept {
  const auto option = std::ranges::find_if(kOptions, [name](const Option& one) { return one.has_name(name); });
  return option == kOptions.end() ? nullptr : &*option;
}

Status apply_option(const Option& option, std::string_view name, std::string_view value, RunArguments& run) {
  const Status applied = option.has_value() && value.empty() ? Status(wrong_form()) : option.apply(run, value);
  if (applied) return {};
  const std::string given = value.empty() ? std::string(name) : fmt::format("{} {}", name, printable_utf8(value));
  const std::string& message = applied.error().message();
  return failure(Code::kInvalidArgument, "{}: {}", given, message.empty() ? expected_text(option, value) : message);
}

tl::unexpected<Error> unknown_option(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Option& option : kOptions)
    for (const auto& list : {option.names, option.others}) names.insert(names.end(), list.begin(), list.end());
  for (const HorovodSetting& setting : horovod_settings()) names.push_back(setting.flag);
  std::erase(names, std::string_view());
  return failure(Code::kInvalidArgument, "unknown option {}{}", printable_utf8(name),
                 did_you_mean(name, names, "; see xoe run --help"));
}

}  // namespace xoe::launch
