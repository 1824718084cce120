#include "launch/option_table.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "launch/hosts.h"

namespace xoe::launch {
namespace {

constexpr int kMostFanOut = 4096;
constexpr int kMostRestarts = 10000;

Result<std::chrono::nanoseconds> parse_seconds(std::string_view option, std::string_view value, double least) {
  const auto seconds = parse_number(value);
  if (!seconds || !(*seconds >= least) || *seconds > 1e9)
    return failure(Code::kInvalidArgument, "{} {}: expected seconds", option, value);
  return std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(*seconds));
}

// Stores a text that must not be empty.
Status parse_text(std::string& to, std::string_view option, std::string_view value, std::string_view what) {
  if (value.empty()) return failure(Code::kInvalidArgument, "{}: expected {}", option, what);
  to = value;
  return {};
}

// The enumerator whose name is `value`.
template <class T>
Status parse_choice(T& to, std::string_view option, std::string_view value,
                    std::span<const std::pair<std::string_view, T>> choices) {
  std::string names;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].first == value) {
      to = choices[i].second;
      return {};
    }
    names.append(i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ").append(choices[i].first);
  }
  return failure(Code::kInvalidArgument, "{} {}: expected {}", option, value, names);
}

Status apply_size(RunArguments& run, std::string_view option, std::string_view value) {
  const auto size = parse_integer(value);
  if (!size || *size > 1'000'000'000 || *size < -1'000'000'000)
    return failure(Code::kInvalidArgument, "{} {}: expected a number of ranks", option, value);
  if (*size < 1) return failure(Code::kInvalidArgument, "{} {}: a job has at least 1 rank", option, value);
  run.options.size = static_cast<int>(*size);
  return {};
}

Status apply_hosts(RunArguments& run, std::string_view option, std::string_view value) {
  auto hosts = parse_hosts(value);
  if (!hosts) return failure(Code::kInvalidArgument, "{} {}: {}", option, value, hosts.error().message());
  run.options.where.hosts = std::move(*hosts);
  return {};
}

Status apply_hostfile(RunArguments& run, std::string_view option, std::string_view value) {
  return parse_text(run.options.where.hostfile, option, value, "a file");
}

Status apply_map(RunArguments& run, std::string_view option, std::string_view value) {
  using namespace std::string_view_literals;
  static constexpr std::array kChoices{std::pair("slot"sv, MapBy::kSlot), std::pair("node"sv, MapBy::kNode),
                                       std::pair("socket"sv, MapBy::kSocket)};
  return parse_choice<MapBy>(run.options.where.map_by, option, value, kChoices);
}

Status apply_binding(RunArguments& run, std::string_view option, std::string_view value) {
  using namespace std::string_view_literals;
  static constexpr std::array kChoices{std::pair("core"sv, Binding::kCore), std::pair("socket"sv, Binding::kSocket),
                                       std::pair("numa"sv, Binding::kNuma), std::pair("none"sv, Binding::kNone)};
  return parse_choice<Binding>(run.options.binding, option, value, kChoices);
}

Status apply_backend(RunArguments& run, std::string_view option, std::string_view value) {
  for (const std::string_view known : {"auto", "shm", "gloo", "mpi", "nccl", "hierarchical"})
    if (value == known) {
      run.options.backend = value;
      return {};
    }
  return failure(Code::kInvalidArgument, "{} {}: expected auto, shm, gloo, mpi, nccl or hierarchical", option, value);
}

Status apply_interface(RunArguments& run, std::string_view option, std::string_view value) {
  return parse_text(run.options.where.network_interface, option, value, "an interface or a network");
}

Status apply_port(RunArguments& run, std::string_view option, std::string_view value) {
  const auto port = parse_integer(value);
  if (!port || *port < 1 || *port > 65535)
    return failure(Code::kInvalidArgument, "{} {}: expected 1 to 65535", option, value);
  run.options.where.ssh_port = static_cast<int>(*port);
  return {};
}

Status apply_identity(RunArguments& run, std::string_view option, std::string_view value) {
  return parse_text(run.options.where.ssh_identity_file, option, value, "the file of a key");
}

Status apply_ssh_command(RunArguments& run, std::string_view option, std::string_view value) {
  return parse_text(run.options.where.ssh_command, option, value, "a command");
}

Status apply_launch_agent(RunArguments& run, std::string_view option, std::string_view value) {
  return parse_text(run.options.where.launch_agent, option, value, "a command");
}

Status apply_fan_out(RunArguments& run, std::string_view option, std::string_view value) {
  const auto hosts = parse_integer(value);
  if (!hosts || *hosts < 0 || *hosts > kMostFanOut)
    return failure(Code::kInvalidArgument, "{} {}: expected 0 (no tree) to {} hosts", option, value, kMostFanOut);
  run.options.where.fan_out = static_cast<int>(*hosts);
  return {};
}

Status apply_xoe_path(RunArguments& run, std::string_view option, std::string_view value) {
  return parse_text(run.options.where.xoe_path, option, value, "the path of xoe on the hosts");
}

Status apply_start_timeout(RunArguments& run, std::string_view option, std::string_view value) {
  XOE_ASSIGN(run.options.where.start_timeout, parse_seconds(option, value, 1e-3));
  return {};
}

Status apply_host_timeout(RunArguments& run, std::string_view option, std::string_view value) {
  XOE_ASSIGN(run.options.where.host_timeout, parse_seconds(option, value, 0.1));
  return {};
}

Status apply_output_dir(RunArguments& run, std::string_view option, std::string_view value) {
  return parse_text(run.options.output_dir, option, value, "a folder");
}

Status apply_timeout(RunArguments& run, std::string_view option, std::string_view value) {
  XOE_ASSIGN(run.options.timeout, parse_seconds(option, value, 1e-3));
  return {};
}

Status apply_grace(RunArguments& run, std::string_view option, std::string_view value) {
  XOE_ASSIGN(run.options.grace, parse_seconds(option, value, 0));
  return {};
}

Status apply_restarts(RunArguments& run, std::string_view option, std::string_view value) {
  const auto restarts = parse_integer(value);
  if (!restarts || *restarts < 0 || *restarts > kMostRestarts)
    return failure(Code::kInvalidArgument, "{} {}: expected how often failed ranks are started anew, 0 to {}", option,
                   value, kMostRestarts);
  run.options.restarts = static_cast<int>(*restarts);
  return {};
}

Status apply_env(RunArguments& run, std::string_view option, std::string_view value) {
  const auto at = value.find('=');
  if (value.empty() || at == 0)
    return failure(Code::kInvalidArgument, "{} {}: expected NAME=VALUE or NAME", option, value);
  if (at == std::string_view::npos)
    run.options.pass_env.emplace_back(value);
  else
    run.options.env.emplace_back(value.substr(0, at), value.substr(at + 1));
  return {};
}

Status apply_config(RunArguments& run, std::string_view option, std::string_view value) {
  return parse_text(run.config_file, option, value, "a file");
}

// A flag: what is done when it is given.
template <auto change>
Status apply_flag(RunArguments& run, std::string_view, std::string_view) {
  change(run);
  return {};
}

constexpr std::array kOptions{
    Option{"-np", true, apply_size},
    Option{"-n", true, apply_size},
    Option{"--np", true, apply_size},
    Option{"--num-proc", true, apply_size},
    Option{"-H", true, apply_hosts},
    Option{"--hosts", true, apply_hosts},
    Option{"--hostfile", true, apply_hostfile},
    Option{"-hostfile", true, apply_hostfile},
    Option{"--map-by", true, apply_map},
    Option{"--bind-to", true, apply_binding},
    Option{"--oversubscribe", false, apply_flag<[](RunArguments& run) { run.options.where.oversubscribe = true; }>},
    Option{"--backend", true, apply_backend},
    Option{"--network-interface", true, apply_interface},
    Option{"--network-interfaces", true, apply_interface},
    Option{"--ssh-port", true, apply_port},
    Option{"-p", true, apply_port},
    Option{"-i", true, apply_identity},
    Option{"--ssh-identity-file", true, apply_identity},
    Option{"--ssh-command", true, apply_ssh_command},
    Option{"--launch-agent", true, apply_launch_agent},
    Option{"--fan-out", true, apply_fan_out},
    Option{"--xoe-path", true, apply_xoe_path},
    Option{"--start-timeout", true, apply_start_timeout},
    Option{"--host-timeout", true, apply_host_timeout},
    Option{"--no-gpu-binding", false, apply_flag<[](RunArguments& run) { run.options.where.bind_gpus = false; }>},
    Option{"--dry-run", false, apply_flag<[](RunArguments& run) { run.options.where.dry_run = true; }>},
    Option{"--check", false, apply_flag<[](RunArguments& run) { run.options.where.check = true; }>},
    Option{"--output-dir", true, apply_output_dir},
    Option{"--output-filename", true, apply_output_dir},
    Option{"--tag-output", false, apply_flag<[](RunArguments& run) { run.options.tag_output = true; }>},
    Option{"--no-tag-output", false, apply_flag<[](RunArguments& run) { run.options.tag_output = false; }>},
    Option{"--timeout", true, apply_timeout},
    Option{"--grace", true, apply_grace},
    Option{"--restarts", true, apply_restarts},
    Option{"--reset-limit", true, apply_restarts},
    Option{"--env", true, apply_env},
    Option{"--config-file", true, apply_config},
    Option{"--help", false, apply_flag<[](RunArguments& run) { run.help = true; }>},
    Option{"-h", false, apply_flag<[](RunArguments& run) { run.help = true; }>}};

}  // namespace

std::span<const Option> all_options() noexcept { return kOptions; }

const Option* find_option(std::string_view name) noexcept {
  const auto option = std::ranges::find(kOptions, name, &Option::name);
  return option == kOptions.end() ? nullptr : &*option;
}

tl::unexpected<Error> unknown_option(std::string_view name) {
  std::vector<std::string_view> names;
  names.reserve(kOptions.size());
  for (const Option& option : kOptions) names.push_back(option.name);
  const auto meant = nearest_word(name, names);
  if (meant.empty()) return failure(Code::kInvalidArgument, "unknown option {}; see xoe run --help", name);
  return failure(Code::kInvalidArgument, "unknown option {}; did you mean {}?", name, meant);
}

}  // namespace xoe::launch
