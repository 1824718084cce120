// The one command: `xoe run` is built in, because its start is part of every job; any other verb is the program
// xoe-VERB beside this one.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "launch/agents/agent.h"
#include "launch/options/arguments.h"
#include "run.h"

namespace {

using xoe::tools::kUsageError;

struct Verb {
  std::string_view name;
  std::string_view what;
};
constexpr Verb kVerbs[] = {{"run", "starts a program as several ranks, on this machine or several"},
                           {"train", "trains a network on images"},
                           {"data", "makes, converts and checks data sets"},
                           {"timeline", "merges and sums up traces of a run"},
                           {"doctor", "is this machine, this cluster, ready? what to fix"},
                           {"bench", "measures collectives and training"}};

std::filesystem::path folder_of_this_program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

std::string path_of(std::string_view verb) { return (folder_of_this_program() / "xoe-").string() + std::string(verb); }

void print_help() {
  std::puts("xoe: distributed data-parallel training.\n\nUsage: xoe VERB [options]\n");
  for (const Verb& verb : kVerbs)
    if (verb.name == "run" || ::access(path_of(verb.name).c_str(), X_OK) == 0)
      std::printf("  %-8.*s %.*s\n", static_cast<int>(verb.name.size()), verb.name.data(),
                  static_cast<int>(verb.what.size()), verb.what.data());
  std::puts("\n`xoe VERB --help` tells more. `xoe --version` prints the version.");
}

int unknown_verb(std::string_view verb) {
  std::vector<std::string_view> names;
  for (const Verb& known : kVerbs) names.push_back(known.name);
  for (const std::string_view name : names)
    if (name == verb) {
      std::fprintf(stderr, "xoe: the program %s is not there: this Xoe was built without it\n", path_of(verb).c_str());
      return kUsageError;
    }
  const auto meant = xoe::launch::nearest_word(verb, names);
  const std::string hint = meant.empty() ? "see xoe --help" : "did you mean " + std::string(meant) + "?";
  std::fprintf(stderr, "xoe: unknown verb \"%.*s\"; %s\n", static_cast<int>(verb.size()), verb.data(), hint.c_str());
  return kUsageError;
}

int start_verb(std::string_view verb, char** argv) {
  const bool plain = verb.find('/') == std::string_view::npos && !verb.empty() && !verb.starts_with('-');
  if (plain) {
    std::string path = path_of(verb);
    argv[1] = path.data();
    ::execv(path.c_str(), argv + 1);
    if (errno != ENOENT) {
      std::fprintf(stderr, "xoe: cannot run %s: %s\n", path.c_str(), std::strerror(errno));
      return 126;
    }
  }
  return unknown_verb(verb);
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
    print_help();
    return kUsageError;
  }
  const std::string_view verb = argv[1];
  if (verb == "run") {
    const std::vector<std::string_view> arguments(argv + 2, argv + argc);
    return xoe::tools::run(arguments);
  }
  if (verb == "agent") return xoe::launch::run_agent(XOE_VERSION);  // what `xoe run` starts on other hosts
  if (verb == "--help" || verb == "-h" || verb == "help") {
    print_help();
    return 0;
  }
  if (verb == "--version") {
    std::puts("xoe " XOE_VERSION);
    return 0;
  }
  // argv[1] is replaced there; the verb is kept for the message.
  return start_verb(std::string(verb), argv);
}
