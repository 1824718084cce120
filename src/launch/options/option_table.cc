#include "launch/options/option_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "remote/host_list.h"

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

constexpr std::size_t kMostVariables = std::size_t{16} << 20;  // bytes of a file

using Name = std::string_view;
constexpr std::array kMappings{std::pair(Name("slot"), MapBy::kSlot), std::pair(Name("node"), MapBy::kNode),
                               std::pair(Name("socket"), MapBy::kSocket)};
constexpr std::array kBindings{std::pair(Name("core"), Binding::kCore), std::pair(Name("socket"), Binding::kSocket),
                               std::pair(Name("numa"), Binding::kNuma), std::pair(Name("none"), Binding::kNone)};

Status set_backend(RunArguments& run, std::string_view text) {
  static constexpr std::array kBackends{"auto", "shm", "gloo", "mpi", "nccl", "hierarchical"};
  if (std::ranges::find(kBackends, text) == kBackends.end()) return wrong_form();
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

constexpr std::array kOptions{
    Option{{"-np", "-n", "--np", "--num-proc"}, "a number of ranks", set_size},
    Option{{"-H", "--hosts"}, "hosts", set_hosts},
    Option{{"--hostfile", "-hostfile"}, "a file", set_text<&HostOptions::hostfile>},
    Option{{"--map-by"}, "slot, node or socket", set_choice<&HostOptions::map_by, kMappings>},
    Option{{"--bind-to"}, "core, socket, numa or none", set_choice<&RunOptions::binding, kBindings>},
    Option{{"--oversubscribe"}, "", set_flag<&HostOptions::oversubscribe, true>},
    Option{{"--backend"}, "auto, shm, gloo, mpi, nccl or hierarchical", set_backend},
    Option{{"--network-interface", "--network-interfaces"},
           "an interface or a network",
           set_text<&HostOptions::network_interface>},
    Option{{"--encrypt"}, "", set_encrypt},
    Option{{"--ssh-port", "-p"}, "1 to 65535", set_integer<&ConnectOptions::ssh_port, 1, 65535>},
    Option{{"-i", "--ssh-identity-file"}, "the file of a key", set_text<&ConnectOptions::ssh_identity_file>},
    Option{{"--ssh-command"}, "a command", set_text<&ConnectOptions::ssh_command>},
    Option{{"--launch-agent"}, "a command", set_text<&ConnectOptions::launch_agent>},
    Option{{"--fan-out"}, "0 (no tree) to 4096 hosts", set_integer<&HostOptions::fan_out, 0, 4096>},
    Option{{"--xoe-path"}, "the path of xoe on the hosts", set_text<&ConnectOptions::xoe_path>},
    Option{{"--start-timeout"}, "seconds", set_seconds<&ConnectOptions::start_timeout, 1>},
    Option{{"--host-timeout"}, "seconds", set_seconds<&ConnectOptions::host_timeout, 100>},
    Option{{"--no-gpu-binding"}, "", set_flag<&HostOptions::bind_gpus, false>},
    Option{{"--dry-run"}, "", set_flag<&HostOptions::dry_run, true>},
    Option{{"--check"}, "", set_flag<&HostOptions::check, true>},
    Option{{"--output-dir", "--output-filename"}, "a folder", set_text<&RunOptions::output_dir>},
    Option{{"--tag-output"}, "", set_flag<&RunOptions::tag_output, true>},
    Option{{"--no-tag-output"}, "", set_flag<&RunOptions::tag_output, false>},
    Option{{"--timeout"}, "seconds", set_seconds<&RunOptions::timeout, 1>},
    Option{{"--grace"}, "seconds", set_seconds<&RunOptions::grace, 0>},
    Option{{"--restarts", "--reset-limit"},
           "how often failed ranks are restarted, 0 to 10000",
           set_integer<&RunOptions::restarts, 0, 10000>},
    Option{{"--env"}, "NAME=VALUE or NAME", add_variable},
    Option{{"--env-file"}, "a file", add_variables},
    Option{{"--config-file"}, "a file", set_text<&RunArguments::config_file>},
    Option{{"--help", "-h"}, "", set_flag<&RunArguments::help, true>}};

}  // namespace

const Option* find_option(std::string_view name) noexcept {
  const auto option = std::ranges::find_if(
      kOptions, [name](const Option& one) { return std::ranges::find(one.names, name) != one.names.end(); });
  return option == kOptions.end() ? nullptr : &*option;
}

Status apply_option(const Option& option, std::string_view name, std::string_view value, RunArguments& run) {
  const Status applied = option.has_value() && value.empty() ? Status(wrong_form()) : option.apply(run, value);
  if (applied) return {};
  const std::string given = value.empty() ? std::string(name) : fmt::format("{} {}", name, value);
  const std::string& message = applied.error().message();
  return failure(Code::kInvalidArgument, "{}: {}", given,
                 message.empty() ? fmt::format("expected {}", option.expected) : message);
}

tl::unexpected<Error> unknown_option(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Option& option : kOptions) names.insert(names.end(), option.names.begin(), option.names.end());
  const auto meant = nearest_word(name, names);
  if (meant.empty()) return failure(Code::kInvalidArgument, "unknown option {}; see xoe run --help", name);
  return failure(Code::kInvalidArgument, "unknown option {}; did you mean {}?", name, meant);
}

}  // namespace xoe::launch
