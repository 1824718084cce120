#include "launch/cli/verbs.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "core/base/error.h"
#include "core/command_line/completion.h"
#include "launch/options/run_help.h"
#include "launch/options/torchrun.h"
#include "launch/remote/shell.h"

namespace xoe::tools {
namespace {

constexpr std::array kVerbs = {
    Verb{"run", "start a program as several ranks, on this machine or several", true},
    Verb{"torchrun", "the same, with the options of torchrun", true},
    Verb{"sweep", "run a program with many settings: a grid or a random search"},
    Verb{"train", "train a network on images"},
    Verb{"bench", "measure training, collectives and scaling, and compare"},
    Verb{"data", "make, convert and check data sets"},
    Verb{"timeline", "merge, sum up and view traces of a run"},
    Verb{"report", "a page about a training run, for a browser"},
    Verb{"doctor", "is this machine, this cluster, ready? what to fix"},
    Verb{"notice", "wait until this machine is to be taken away: spot instances, maintenance"},
    Verb{"pool", "share the GPUs of a team without conflicts"},
    Verb{"completion", "print what bash, zsh or fish needs to complete command lines", true},
    Verb{"help", "`xoe help VERB` tells about a verb", true}};

constexpr const char* kFooter = R"(Examples:
  xoe doctor                                what this machine can do
  xoe run -np 2 python train.py             two ranks of a program
  xoe run -np 2 xoe train --synthetic       two ranks of the built-in training

`xoe VERB --help` tells more.)";

constexpr const char* kCompletionFooter = R"(Examples:
  source <(xoe completion bash)
  xoe completion bash > ~/.local/share/bash-completion/completions/xoe
  xoe completion zsh > ~/.zfunc/_xoe     with ~/.zfunc in fpath
  xoe completion fish > ~/.config/fish/completions/xoe.fish)";

bool is_there(const Verb& verb) { return verb.built_in || ::access(program_of(verb.name).c_str(), X_OK) == 0; }

std::string output_of(const std::string& command) {
  std::string text;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "re"), ::pclose);
  if (pipe == nullptr) return text;
  std::array<char, 4096> chunk;
  while (const auto count = std::fread(chunk.data(), 1, chunk.size(), pipe.get())) text.append(chunk.data(), count);
  return text;
}

command_line::Command command_of(const Verb& verb) {
  command_line::Command plain{.name = fmt::format("xoe {}", verb.name), .what = std::string(verb.what)};
  if (verb.name == "run") return launch::run_command();
  if (verb.name == "torchrun") return launch::torchrun_command();
  if (verb.name == "completion") return completion_command();
  if (verb.built_in) return plain;
  auto asked = command_line::decode(
      output_of(remote::shell_line({program_of(verb.name), std::string(command_line::kDescribe)})));
  if (!asked) return plain;
  asked->what = verb.what;
  return std::move(*asked);
}

void add_common_options(command_line::Command& command) {
  command.options.push_back({.names = {"-h", "--help"}, .what = "print this help"});
  command.options.push_back({.names = {"--version"}, .what = "print the version of Xoe"});
}

command_line::Command command_with(command_line::Command (*verb_command)(const Verb&)) {
  command_line::Command command{.name = "xoe", .what = "distributed data-parallel training.", .footer = kFooter};
  for (const Verb& verb : kVerbs)
    if (is_there(verb)) command.verbs.push_back(verb_command(verb));
  add_common_options(command);
  return command;
}

}  // namespace

std::span<const Verb> all_verbs() noexcept { return kVerbs; }

std::string program_of(std::string_view verb) {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  return (folder / "xoe-").string() + std::string(verb);
}

command_line::Command short_command() {
  return command_with([](const Verb& verb) {
    return command_line::Command{.name = fmt::format("xoe {}", verb.name), .what = std::string(verb.what)};
  });
}

command_line::Command whole_command() {
  command_line::Command whole = command_with(command_of);
  // `xoe help` takes the names of the others.
  std::vector<std::string> names;
  for (const command_line::Command& verb : whole.verbs) names.push_back(verb.name.substr(whole.name.size() + 1));
  whole.verbs.back().operands.push_back({.names = {"VERB"}, .value = "VERB", .choices = std::move(names)});
  return whole;
}

command_line::Command completion_command() {
  command_line::Command command{.name = "xoe completion",
                                .what = "prints what a shell needs to complete the command lines of Xoe.",
                                .usage = "SHELL",
                                .footer = kCompletionFooter};
  command.operands.push_back(
      {.names = {"SHELL"}, .value = "SHELL", .choices = command_line::shell_names(), .what = "bash, zsh or fish"});
  add_common_options(command);
  return command;
}

}  // namespace xoe::tools
