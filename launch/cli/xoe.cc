// The one command: `xoe run` is built in, because its start is part of every job; any other verb is the program
// xoe-VERB beside this one.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/nearest_word.h"
#include "core/command_line/command.h"
#include "core/command_line/completion.h"
#include "core/command_line/help.h"
#include "core/command_line/version.h"
#include "launch/agents/agent.h"
#include "launch/cli/run.h"
#include "launch/cli/torchrun.h"
#include "launch/cli/verbs.h"
#include "launch/options/option_table.h"
#include "launch/remote/program.h"

namespace {

using namespace xoe;
using command_line::kUsageError;

constexpr int kCannotRun = 126;

int print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) == 0) return 0;
  fmt::print(stderr, "xoe: cannot write the output: {}\n", errno_text(errno));
  return kCannotRun;
}

int usage_error(std::string_view what) {
  fmt::print(stderr, "xoe: {}\n", what);
  return kUsageError;
}

// "run -np 2 prog" for the words behind "xoe".
std::string as_run(std::span<const std::string_view> words) {
  return fmt::format("`xoe run {}{}`", words[0].starts_with('-') ? "" : "-np 2 ", fmt::join(words, " "));
}

// A first word that is neither a verb nor a program beside this one.
int unknown_verb(std::span<const std::string_view> words) {
  const std::string_view word = words[0];
  std::vector<std::string_view> names;
  for (const tools::Verb& verb : tools::all_verbs()) names.push_back(verb.name);
  if (std::ranges::find(names, word) != names.end())
    return usage_error(
        fmt::format("the program {} is not there: this Xoe was built without it", tools::program_of(word)));
  if (word.starts_with('-')) {
    if (launch::find_option(word.substr(0, word.find_first_of("=0123456789"))) != nullptr)
      return usage_error(fmt::format("{} is an option of xoe run; did you mean {}?", word, as_run(words)));
    return usage_error(fmt::format("unknown option {}; see xoe --help", word));
  }
  const auto meant = did_you_mean(word, names);
  if (!meant.empty()) return usage_error(fmt::format("unknown verb \"{}\"{}", word, meant));
  std::error_code ignored;
  if (std::filesystem::exists(word, ignored) || remote::find_program(std::string(word), Env::process()))
    return usage_error(fmt::format("unknown verb \"{}\"; to start it as ranks: {}", word, as_run(words)));
  return usage_error(fmt::format("unknown verb \"{}\"; see xoe --help", word));
}

// Becomes xoe-VERB, or says why not.
int start_verb(std::vector<std::string_view> words) {
  const std::string_view verb = words[0];
  if (verb.empty() || verb.starts_with('-') || verb.find('/') != std::string_view::npos) return unknown_verb(words);
  const std::string path = tools::program_of(verb);
  std::vector<std::string> arguments(words.begin(), words.end());
  arguments[0] = path;
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  if (errno == ENOENT) return unknown_verb(words);
  fmt::print(stderr, "xoe: cannot run {}: {}\n", path, errno_text(errno));
  return kCannotRun;
}

// `words` follow the word `completion`.
int completion(std::span<const std::string_view> words) {
  const command_line::Command command = tools::completion_command();
  for (const std::string_view word : words) {
    if (word == "-h" || word == "--help") return print(command_line::help_text(command));
    if (word == "--version") return print(fmt::format("xoe {}\n", command_line::version()));
  }
  const auto& shells = command_line::shell_names();
  if (words.size() != 1)
    return usage_error(
        fmt::format("completion: say for which shell: {}; see xoe completion --help", command_line::one_of(shells)));
  if (std::ranges::find(shells, words[0]) != shells.end())
    return print(command_line::completion_script(words[0], tools::whole_command()));
  std::vector<std::string_view> names(shells.begin(), shells.end());
  names.insert(names.end(), {"--help", "--version"});
  return usage_error(fmt::format("completion: unknown {} {}{}", words[0].starts_with('-') ? "option" : "shell",
                                 words[0],
                                 did_you_mean(words[0], names, "; there are " + command_line::one_of(shells))));
}

bool asks_for_help(std::string_view word) { return word == "--help" || word == "-h" || word == "help"; }

int start(std::span<const std::string_view> words) {
  const std::string_view verb = words[0];
  if (verb == "run") return tools::run(words.subspan(1));
  if (verb == "torchrun") return tools::torchrun(words.subspan(1));
  if (verb == "completion") return completion(words.subspan(1));
  if (verb == "agent")
    return launch::run_agent(std::string(command_line::version()));  // what `xoe run` starts on other hosts
  if (verb == "--version") return print(fmt::format("xoe {}\n", command_line::version()));
  if (!asks_for_help(verb)) return start_verb({words.begin(), words.end()});
  if (words.size() == 1 || verb != "help" || asks_for_help(words[1]))
    return print(command_line::help_text(tools::short_command()));
  // `xoe help data make` is `xoe data make --help`.
  std::vector<std::string_view> about(words.begin() + 1, words.end());
  about.emplace_back("--help");
  return start(about);
}

// So that no pipe or file opened later becomes one of the three.
void open_missing_standard_streams() {
  for (const int fd : {0, 1, 2})
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0) std::_Exit(125);
}

}  // namespace

int main(int argc, char** argv) {
  open_missing_standard_streams();
  if (argc < 2) {
    print(command_line::help_text(tools::short_command()));
    return kUsageError;
  }
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  return start(words);
}
