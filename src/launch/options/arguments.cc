#include "launch/options/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "launch/options/config_file.h"
#include "launch/options/horovod_settings.h"
#include "launch/options/option_table.h"

namespace xoe::launch {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// An option as it stands on the command line: -name value, --name value or --name=value.
struct WrittenOption {
  std::string_view name;
  std::optional<std::string_view> attached;  // after "="
};

WrittenOption split_word(std::string_view word) {
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

// Applies the options to `run`, up to the program, and returns where that begins.
Result<std::size_t> apply_options(std::span<const std::string_view> arguments, RunArguments& run) {
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].size() > 1 && arguments[at].starts_with('-')) {
    const std::string_view word = arguments[at++];
    if (word == "--") break;
    const WrittenOption written = split_word(word);
    const Option* option = find_option(written.name);
    const auto horovods = option == nullptr ? find_horovod_flag(written.name) : std::nullopt;
    if (option == nullptr && !horovods) return unknown_option(written.name);
    const bool has_value = option != nullptr ? option->has_value() : horovods->has_value;
    XOE_ASSIGN(const std::string_view value, take_value(written, has_value, arguments, at));
    XOE_TRY(option == nullptr ? apply_horovod_flag(*horovods, written.name, value, run)
                              : apply_option(*option, written.name, value, run));
    if (run.help) break;
  }
  return at;
}

}  // namespace

Result<RunArguments> parse_run_arguments(std::span<const std::string_view> arguments) {
  RunArguments run;
  XOE_ASSIGN(std::size_t at, apply_options(arguments, run));
  if (run.help) return run;
  if (!run.config_file.empty()) {
    // The command line overrides the file, wherever on it the file is named.
    RunArguments from_file;
    XOE_TRY(read_config_file(run.config_file, from_file));
    if (!run.options.where.hosts.empty() || !run.options.where.hostfile.empty()) {
      from_file.options.where.hosts.clear();
      from_file.options.where.hostfile.clear();
    }
    run = std::move(from_file);
    XOE_ASSIGN(at, apply_options(arguments, run));
  }
  run.options.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
  if (run.options.command.empty())
    return failure(Code::kInvalidArgument, "no program given; for example: {}", "xoe run -np 2 python train.py");
  if (!run.options.where.hosts.empty() && !run.options.where.hostfile.empty())
    return failure(Code::kInvalidArgument, "hosts are given with -H and with --hostfile {}; choose one of them",
                   run.options.where.hostfile);
  return run;
}

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view nearest;
  std::size_t distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const auto one = edit_distance(word, candidate);
    if (one < distance && one < candidate.size()) {
      distance = one;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string_view run_help() noexcept {
  return R"(xoe run: starts a program as several ranks, on this machine or on several hosts.

Usage: xoe run -np N [options] PROGRAM [arguments of the program]

  -np N, -n N            number of ranks; default: one for each slot of the hosts
  -H a:4,b:4             hosts and their slots (--hosts); reached by ssh without a password
  --hostfile FILE        the same, a line for each: `host slots=4 max-slots=8` or `host:4`
                         Neither, inside a Slurm allocation: its nodes and tasks
  --oversubscribe        more ranks than slots may run
  --map-by slot|node|socket   fill a host's slots first (default); hosts by turns; sockets by turns
  --bind-to none         every rank may run on every core (default)
            core         each rank on its own share of the cores
            socket|numa  each rank on the cores of one socket, or near one memory: its
                         GPU's, or from the network interface's on
  --no-gpu-binding       leave CUDA_VISIBLE_DEVICES as it is
  --backend NAME         auto, shm, gloo, mpi, nccl or hierarchical
  --network-interface X  names or networks (ib0, 10.1.0.0/16) that ranks talk over
  --encrypt              encrypts tensors between hosts; other messages always are
  --ssh-port N, --ssh-identity-file FILE, --ssh-command CMD
  --launch-agent CMD     instead of ssh: CMD HOST PROGRAM ARGUMENTS... runs a program there
  --fan-out N            with more hosts than this (default 64) agents reach some of them for the
                         launcher; 0: never
  --xoe-path PATH        of xoe on the hosts; default: as here
  --start-timeout S      until all hosts have answered (default 30)
  --host-timeout S       until a silent host counts as lost (default XOE_HOST_TIMEOUT or 10)
  --check                checks every host and prints the result; starts nothing
  --dry-run              prints what would be started; connects to no host
  --env NAME[=VALUE]     sets a variable for all ranks, or passes ours on; may be repeated
  --env-file FILE        sets the variables of a file, as env -0 prints them
  --config-file FILE     options from TOML (`np = 4`), settings from Horovod's YAML
  --output-dir DIR       also writes DIR/rank.N/stdout and DIR/rank.N/stderr
  --no-tag-output        no "[N] " before each line (--tag-output: the default)
  --timeout SECONDS      ends the whole job after this long, with exit code 124
  --restarts N           restarts ranks that fail, N times in all; training goes on from where
                         it last committed (xoe.torch.elastic) or wrote a checkpoint
  --grace SECONDS        between SIGTERM and SIGKILL when a job is ended (default 5)
  -h, --help             this text

horovodrun's options are understood too; those without a meaning here say why.

Rank 0 reads stdin. When a rank fails the others are ended, and the exit code is that of the
rank that failed first (128 + number for a signal). Ctrl-C is passed on; a second one kills.

Examples:
  xoe run -np 2 xoe train --model resnet18 --synthetic
  xoe run -np 4 --output-dir logs python train.py --epochs 10
  xoe run -H nodeA:4,nodeB:4 --check python train.py
  xoe run -H nodeA:4,nodeB:4 --bind-to core python train.py
)";
}

}  // namespace xoe::launch
