// Runs xoe-data as its users do.
#pragma once

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "core/testing/places.h"
#include "core/testing/scratch.h"

namespace xoe::data {

struct Ended {
  int code = -1;
  std::string out;
  std::string error;
};

// Runs xoe-data in a process of its own, in which `before` is called first; `meanwhile` gets its process id.
inline Ended run(const std::vector<std::string>& arguments, void (*before)() = nullptr,
                 const std::function<void(pid_t)>& meanwhile = nullptr) {
  const std::string program = built_command("xoe-data");
  const Scratch scratch;
  const std::string out = scratch.file("out");
  const std::string error = scratch.file("error");
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open(out.c_str(), O_CREAT | O_WRONLY, 0600), 1);
    ::dup2(::open(error.c_str(), O_CREAT | O_WRONLY, 0600), 2);
    if (before != nullptr) before();
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  if (meanwhile) meanwhile(child);
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), read_file(out), read_file(error)};
}

// A small data set of 40 training and 9 validation images in 2 and 1 files.
inline std::vector<std::string> make_arguments(const std::string& directory) {
  return {"make", "--images",   "40", "--validation", "9",  "--classes", "5",      "--shards",
          "2",    "--size-min", "32", "--size-max",   "48", "--json",    directory};
}

}  // namespace xoe::data
