#include "launch/arguments.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "base/text.h"

namespace xoe::launch {
namespace {

struct Option {
  std::string_view name;
  bool has_value;
  Status (*apply)(RunArguments&, std::string_view option, std::string_view value);
};

Result<std::chrono::nanoseconds> parse_seconds(std::string_view option, std::string_view value, double least) {
  const auto seconds = parse_number(value);
  if (!seconds || !(*seconds >= least) || *seconds > 1e9)
    return failure(Code::kInvalidArgument, "{} {}: expected seconds", option, value);
  return std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(*seconds));
}

Status apply_size(RunArguments& run, std::string_view option, std::string_view value) {
  const auto size = parse_integer(value);
  if (!size || *size > 1'000'000'000 || *size < -1'000'000'000)
    return failure(Code::kInvalidArgument, "{} {}: expected a number of ranks", option, value);
  if (*size < 1) return failure(Code::kInvalidArgument, "{} {}: a job has at least 1 rank", option, value);
  run.options.size = static_cast<int>(*size);
  return {};
}

Status apply_binding(RunArguments& run, std::string_view option, std::string_view value) {
  if (value == "none")
    run.options.binding = Binding::kNone;
  else if (value == "core")
    run.options.binding = Binding::kCore;
  else if (value == "socket")
    run.options.binding = Binding::kSocket;
  else
    return failure(Code::kInvalidArgument, "{} {}: expected core, socket or none", option, value);
  return {};
}

Status apply_output_dir(RunArguments& run, std::string_view option, std::string_view value) {
  if (value.empty()) return failure(Code::kInvalidArgument, "{}: expected a folder", option);
  run.options.output_dir = value;
  return {};
}

Status apply_timeout(RunArguments& run, std::string_view option, std::string_view value) {
  XOE_ASSIGN(run.options.timeout, parse_seconds(option, value, 1e-3));
  return {};
}

Status apply_grace(RunArguments& run, std::string_view option, std::string_view value) {
  XOE_ASSIGN(run.options.grace, parse_seconds(option, value, 0));
  return {};
}

Status apply_env(RunArguments& run, std::string_view option, std::string_view value) {
  const auto at = value.find('=');
  if (at == std::string_view::npos || at == 0)
    return failure(Code::kInvalidArgument, "{} {}: expected NAME=VALUE", option, value);
  run.options.env.emplace_back(value.substr(0, at), value.substr(at + 1));
  return {};
}

Status apply_tag(RunArguments& run, std::string_view, std::string_view) {
  run.options.tag_output = true;
  return {};
}

Status apply_no_tag(RunArguments& run, std::string_view, std::string_view) {
  run.options.tag_output = false;
  return {};
}

Status apply_help(RunArguments& run, std::string_view, std::string_view) {
  run.help = true;
  return {};
}

constexpr std::array kOptions{Option{"-np", true, apply_size},
                              Option{"-n", true, apply_size},
                              Option{"--np", true, apply_size},
                              Option{"--bind-to", true, apply_binding},
                              Option{"--output-dir", true, apply_output_dir},
                              Option{"--tag-output", false, apply_tag},
                              Option{"--no-tag-output", false, apply_no_tag},
                              Option{"--timeout", true, apply_timeout},
                              Option{"--grace", true, apply_grace},
                              Option{"--env", true, apply_env},
                              Option{"--help", false, apply_help},
                              Option{"-h", false, apply_help}};

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

tl::unexpected<Error> unknown_option(std::string_view name) {
  std::vector<std::string_view> names;
  names.reserve(kOptions.size());
  for (const Option& option : kOptions) names.push_back(option.name);
  const auto meant = nearest_word(name, names);
  if (meant.empty()) return failure(Code::kInvalidArgument, "unknown option {}; see xoe run --help", name);
  return failure(Code::kInvalidArgument, "unknown option {}; did you mean {}?", name, meant);
}

}  // namespace

Result<RunArguments> parse_run_arguments(std::span<const std::string_view> arguments) {
  RunArguments run;
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].size() > 1 && arguments[at].starts_with('-')) {
    const std::string_view word = arguments[at++];
    if (word == "--") break;
    const auto equals = word.starts_with("--") ? word.find('=') : std::string_view::npos;
    const auto name = word.substr(0, equals);
    const auto option = std::ranges::find(kOptions, name, &Option::name);
    if (option == kOptions.end()) return unknown_option(name);
    std::string_view value;
    if (equals != std::string_view::npos) {
      if (!option->has_value) return failure(Code::kInvalidArgument, "{} takes no value", name);
      value = word.substr(equals + 1);
    } else if (option->has_value) {
      if (at == arguments.size()) return failure(Code::kInvalidArgument, "{} needs a value", name);
      value = arguments[at++];
    }
    XOE_TRY(option->apply(run, name, value));
    if (run.help) return run;
  }
  run.options.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
  if (run.options.command.empty())
    return failure(Code::kInvalidArgument, "no program given; for example: {}", "xoe run -np 2 python train.py");
  if (run.options.size == 0)
    return failure(Code::kInvalidArgument, "how many ranks? For example: xoe run -np 2 {}", run.options.command[0]);
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
  return R"(xoe run: starts a program as several ranks on this machine.

Usage: xoe run -np N [options] PROGRAM [arguments of the program]

  -np N, -n N            number of ranks, 1 to 64
  --bind-to none         every rank may run on every core (default)
            core         each rank on its own share of the cores
            socket       each rank on the cores of one socket
  --env NAME=VALUE       sets a variable for all ranks; may be repeated
  --output-dir DIR       also writes DIR/rank.N/stdout and DIR/rank.N/stderr
  --no-tag-output        no "[N] " before each line (--tag-output: the default)
  --timeout SECONDS      ends the whole job after this long, with exit code 124
  --grace SECONDS        between SIGTERM and SIGKILL when a job is ended (default 5)
  -h, --help             this text

Rank 0 reads stdin. When a rank fails the others are ended, and the exit code is that of the
rank that failed first (128 + number for a signal). Ctrl-C is passed on; a second one kills.

Examples:
  xoe run -np 2 xoe train --model resnet18 --synthetic
  xoe run -np 4 --output-dir logs python train.py --epochs 10
  xoe run -np 2 --bind-to core --env OMP_NUM_THREADS=1 ./my_program
)";
}

}  // namespace xoe::launch
