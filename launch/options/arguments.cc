#include "launch/options/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/options/config_file.h"
#include "launch/options/horovod_settings.h"
#include "launch/options/option_table.h"

namespace xoe::launch {
namespace {

// An option as it stands on the command line: -name value, --name value or --name=value.
struct WrittenOption {
  std::string_view name;
  std::optional<std::string_view> attached;  // after "="
};

// -np2 and -np=2 are the option -np with a value.
std::optional<WrittenOption> split_number(std::string_view word) {
  const auto digit = word.find_first_of("=0123456789", 2);
  if (digit == std::string_view::npos) return std::nullopt;
  const std::string_view name = word.substr(0, digit);
  const Option* const option = find_option(name);
  if (option == nullptr || !option->has_value()) return std::nullopt;
  return WrittenOption{name, word.substr(word[digit] == '=' ? digit + 1 : digit)};
}

WrittenOption split_word(std::string_view word) {
  if (!word.starts_with("--") && find_option(word) == nullptr)
    if (const auto attached = split_number(word)) return *attached;
  const auto equals = word.starts_with("--") ? word.find('=') : std::string_view::npos;
  if (equals == std::string_view::npos) return {word, std::nullopt};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

// The option's value, perhaps from the next word; empty for an option that takes none.
Result<std::string_view> take_value(const WrittenOption& written, bool has_value,
                                    std::span<const std::string_view> arguments, std::size_t& at) {
  if (written.attached && !has_value) return failure(Code::kInvalidArgument, "{} takes no value", written.name);
  if (written.attached) return *written.attached;
  if (!has_value) return std::string_view();
  if (at == arguments.size()) return failure(Code::kInvalidArgument, "{} needs a value", written.name);
  if (find_option(arguments[at]) != nullptr)
    return failure(Code::kInvalidArgument, "{} needs a value, but {}, an option, follows it", written.name,
                   arguments[at]);
  return arguments[at++];
}

Status apply_horovod_flag(const HorovodFlag& flag, std::string_view name, std::string_view value, RunArguments& run) {
  if (flag.refused) return failure(Code::kUnsupported, "{}: {}", name, flag.reason);
  if (flag.setting == nullptr) {
    run.options.notes.push_back(fmt::format("{} has no meaning here: {}", name, flag.reason));
    return {};
  }
  return apply_horovod_setting(*flag.setting, std::string(flag.has_value ? value : flag.implied), run);
}

// The words that follow this option belong to the module.
constexpr std::string_view kModule = "-m";

// Whether another `xoe run`, which a pool or a pod starts, gets this option as it stands.
bool passes_on(const Option& option) {
  constexpr std::array<std::string_view, 4> kSaidByOthers{"-np", kModule, "--nodes", "--rendezvous"};
  return option.group != kPoolOptions && option.group != kManifestOptions &&
         std::ranges::find(kSaidByOthers, option.names.front()) == kSaidByOthers.end();
}

// Applies the options to `run`, up to the program, and returns where that begins.
Result<std::size_t> apply_options(std::span<const std::string_view> arguments, RunArguments& run) {
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].size() > 1 && arguments[at].starts_with('-')) {
    const std::size_t begin = at;
    const std::string_view word = arguments[at++];
    if (word == "--") break;
    const WrittenOption written = split_word(word);
    const Option* option = find_option(written.name);
    const auto horovods = option == nullptr ? find_horovod_flag(written.name) : std::nullopt;
    if (option == nullptr && !horovods) return unknown_option(written.name);
    const bool has_value = option != nullptr ? option->has_value() : horovods->has_value;
    XOE_ASSIGN(std::string_view value, take_value(written, has_value, arguments, at));
    std::string both;
    if (option != nullptr && option->pair && parse_number(value) && at < arguments.size() &&
        parse_number(arguments[at])) {
      both = fmt::format("{},{}", value, arguments[at++]);
      value = both;
    }
    XOE_TRY(option == nullptr ? apply_horovod_flag(*horovods, written.name, value, run)
                              : apply_option(*option, written.name, value, run));
    if (option == nullptr || passes_on(*option))
      run.own_words.insert(run.own_words.end(), arguments.begin() + static_cast<std::ptrdiff_t>(begin),
                           arguments.begin() + static_cast<std::ptrdiff_t>(at));
    if (run.help || run.version || (option != nullptr && option->names.front() == kModule)) break;
  }
  return at;
}

Status check_pool(const RunOptions& options) {
  if (!options.pool && !options.pool_words.empty())
    return failure(Code::kInvalidArgument, "{} is for GPUs of a pool: add --pool", options.pool_words.front());
  if (!options.pool) return {};
  if (options.size != 0)
    return failure(Code::kInvalidArgument, "-np {} with --pool: there is one rank for each GPU; say --gpus {}",
                   options.size, options.size);
  if (!options.where.hosts.empty() || !options.where.hostfile.empty())
    return failure(Code::kInvalidArgument,
                   "-H with --pool: the pool says on which hosts the GPUs are; --any-host lets it take several");
  if (!options.devices.empty() || options.resize_fd >= 0)
    return failure(Code::kInvalidArgument, "--devices and --resize with --pool: the pool gives the GPUs");
  if (options.elastic.least > 0 || options.elastic.most > 0)
    return failure(Code::kInvalidArgument, "{} with --pool: --gpus MIN:MAX says how many ranks there may be",
                   options.elastic.least > 0 ? "--min-np" : "--max-np");
  return {};
}

Status check_elastic(RunOptions& options) {
  ElasticOptions& elastic = options.elastic;
  if (elastic.changes_hosts() && elastic.least == 0) elastic.least = std::max(options.size, 1);
  if (elastic.least == 0 && elastic.most > 0)
    return failure(Code::kInvalidArgument, "--max-np {}: how many ranks are enough? Add --min-np", elastic.most);
  if (elastic.least == 0 && !elastic.notices.empty())
    return failure(Code::kInvalidArgument, "--notice {}: may the others go on? Add --min-np", elastic.notices.front());
  if (elastic.most > 0 && elastic.most < elastic.least)
    return failure(Code::kInvalidArgument, "--max-np {} is less than --min-np {}", elastic.most, elastic.least);
  if (elastic.most > 0 && options.size > elastic.most)
    return failure(Code::kInvalidArgument, "-np {} is more than --max-np {}", options.size, elastic.most);
  if (options.size > 0 && options.size < elastic.least)
    return failure(Code::kInvalidArgument, "--min-np {} is more than -np {}", elastic.least, options.size);
  const HostOptions& where = options.where;
  if (elastic.changes_hosts() && (!where.hosts.empty() || !where.hostfile.empty()))
    return failure(Code::kInvalidArgument, "{} with --host-discovery-script: the script says which hosts there are",
                   where.hosts.empty() ? "--hostfile" : "-H");
  if (elastic.longest_cooldown < elastic.cooldown)
    return failure(Code::kInvalidArgument, "--blacklist-cooldown-range: the first number is the shortest time");
  return {};
}

Status check_rendezvous(const RunOptions& options) {
  const RendezvousOptions& wanted = options.rendezvous;
  if (wanted.at.empty() && (wanted.node_rank >= 0 || wanted.nodes > 0 || !wanted.secret_file.empty()))
    return failure(Code::kInvalidArgument, "{} is for members that meet: add --rendezvous auto, or --rendezvous HOST",
                   wanted.node_rank >= 0 ? "--node-rank"
                   : wanted.nodes > 0    ? "--nodes"
                                         : "--rendezvous-secret");
  if (wanted.at.empty()) return {};
  const HostOptions& where = options.where;
  const char* const other = !where.hosts.empty()                  ? "-H"
                            : !where.hostfile.empty()             ? "--hostfile"
                            : options.pool                        ? "--pool"
                            : !options.devices.empty()            ? "--devices"
                            : options.resize_fd >= 0              ? "--resize"
                            : options.elastic.least > 0           ? "--min-np"
                            : !where.connect.launch_agent.empty() ? "--launch-agent"
                                                                  : nullptr;
  if (other == nullptr) return {};
  return failure(Code::kInvalidArgument, "{} with --rendezvous: every host runs this command itself; leave out {}",
                 other, other);
}

// An option that says what one process does, and not what all pods are told; nullptr: none is given.
const char* option_of_one(const RunOptions& options) {
  const RendezvousOptions& meeting = options.rendezvous;
  return !meeting.at.empty() && meeting.at != "auto" ? "--rendezvous"
         : meeting.node_rank >= 0                    ? "--node-rank"
         : !meeting.secret_file.empty()              ? "--rendezvous-secret"
         : options.where.dry_run                     ? "--dry-run"
         : options.where.check                       ? "--check"
         : options.wants_panel.value_or(false)       ? "--panel"
                                                     : nullptr;
}

// The ranks of a manifest meet in pods.
Status check_print(RunArguments& run) {
  const ManifestOptions& manifest = run.manifest;
  const char* const given = manifest_option(manifest);
  if (manifest.kind == ManifestKind::kNone && given != nullptr)
    return failure(Code::kInvalidArgument, "{} is for manifests: add --print-kubernetes KIND", given);
  if (manifest.kind == ManifestKind::kNone) return {};
  RunOptions& options = run.options;
  if (const char* const other = option_of_one(options))
    return failure(Code::kInvalidArgument, "{} with --print-kubernetes: every pod gets the same command; leave it out",
                   other);
  options.rendezvous.at = "auto";
  if (options.size > kMaxRanksPerHost)
    return failure(Code::kInvalidArgument, "-np {}: a pod has at most {} ranks", options.size, kMaxRanksPerHost);
  if (manifest.kind == ManifestKind::kRuntime) {
    const char* const jobs = options.rendezvous.nodes > 0     ? "--nodes"
                             : options.size > 0               ? "-np"
                             : !manifest.name.empty()         ? "--name"
                             : !manifest.queue.empty()        ? "--queue"
                             : !manifest.device_class.empty() ? "--device-class"
                             : !options.command.empty()       ? "a program"
                                                              : nullptr;
    if (jobs != nullptr)
      return failure(Code::kInvalidArgument, "--print-kubernetes runtime: {} is the TrainJob's; leave it out", jobs);
  } else if (options.rendezvous.nodes == 0) {
    return failure(Code::kInvalidArgument, "{}", "--print-kubernetes: how many pods? Add --nodes N");
  }
  return check_manifest(manifest);
}

}  // namespace

Result<RunArguments> parse_run_arguments(std::span<const std::string_view> arguments) {
  RunArguments run;
  XOE_ASSIGN(std::size_t at, apply_options(arguments, run));
  if (run.help || run.version) return run;
  if (!run.config_file.empty()) {
    // The command line overrides the file, wherever on it the file is named.
    RunArguments from_file;
    XOE_TRY(read_config_file(run.config_file, from_file));
    if (!run.options.where.hosts.empty() || !run.options.where.hostfile.empty()) {
      from_file.options.where.hosts.clear();
      from_file.options.where.hostfile.clear();
    }
    if (from_file.options.pool || !from_file.options.pool_words.empty())
      return failure(Code::kInvalidArgument, "{}: the options of the pool belong on the command line", run.config_file);
    run = std::move(from_file);
    XOE_ASSIGN(at, apply_options(arguments, run));
  }
  run.options.command.insert(run.options.command.end(), arguments.begin() + static_cast<std::ptrdiff_t>(at),
                             arguments.end());
  if (run.options.command.empty() && run.manifest.kind != ManifestKind::kRuntime)
    return failure(Code::kInvalidArgument, "no program given; for example: {}", "xoe run -np 2 python train.py");
  XOE_TRY(check_pool(run.options));
  XOE_TRY(check_print(run));
  XOE_TRY(check_rendezvous(run.options));
  XOE_TRY(check_elastic(run.options));
  if (!run.options.where.hosts.empty() && !run.options.where.hostfile.empty())
    return failure(Code::kInvalidArgument, "hosts are given with -H and with --hostfile {}; choose one of them",
                   run.options.where.hostfile);
  return run;
}

}  // namespace xoe::launch
