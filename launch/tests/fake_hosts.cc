#include "launch/tests/fake_hosts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "launch/remote/frame.h"

namespace xoe::launch {
namespace {

// A real ssh gives its server's environment, not the client's; the mark by which tests find processes is kept.
constexpr const char* kScript = R"(#!/bin/sh
folder=$(dirname "$0")
echo "from ${FAKE_HOST:-here}: $*" >> "$folder/log"
while [ $# -gt 2 ]; do shift; done
fail() { echo "$1" >&2; exit 255; }
case $1 in
  gone) fail "ssh: connect to host gone port 22: No route to host" ;;
  denied) fail "me@denied: Permission denied (publickey)." ;;
  unknown) fail "Host key verification failed." ;;
  changed) fail "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @" ;;
  sour) echo "profile: line 3: module: command not found" >&2; exit 127 ;;
  bare) exec sh -c "exec /nowhere/xoe agent" ;;
  odd) echo "This account is not available."; exit 1 ;;
  old) cat "$folder/old"; exec sleep 100 ;;
  slow) exec sleep 100 ;;
  noisy) echo "Welcome to noisy!"; echo "You have mail." ;;
esac
start() { exec env -i PATH=/usr/bin:/bin FAKE_HOST="$1" XOE_TEST_MARK="$XOE_TEST_MARK" sh -c "$2"; }
case $1 in
  far) start "$@" | exec python3 -c 'import os, sys, time
while data := os.read(0, 65536):
  time.sleep(0.15)
  while os.path.exists(sys.argv[1]): time.sleep(0.01)
  os.write(1, data)' "$folder/hold" ;;
  *) start "$@" ;;
esac
)";

}  // namespace

FakeHosts::FakeHosts() {
  std::ofstream(folder_ + "/ssh") << kScript;
  std::filesystem::permissions(folder_ + "/ssh", std::filesystem::perms::owner_all);
  std::string old(remote::kAgentGreeting);
  remote::append_frame(old, {.kind = remote::Frame::Kind::kHello, .text = encode(remote::Hello{.version = "0.0.7"})});
  std::ofstream(folder_ + "/old", std::ios::binary) << old;
}

std::vector<std::string> FakeHosts::arguments(const std::string& hosts, const std::string& script,
                                              const std::vector<std::string>& options) const {
  std::vector<std::string> all{"run", "-H", hosts, "--ssh-command", folder_ + "/ssh"};
  all.insert(all.end(), options.begin(), options.end());
  all.insert(all.end(), {"bash", "-c", script});
  return all;
}

Finished FakeHosts::run(const std::string& hosts, const std::string& script,
                        const std::vector<std::string>& options) const {
  Launched job(arguments(hosts, script, options));
  Finished finished = job.wait();
  EXPECT_TRUE(job.all_gone());
  return finished;
}

std::string FakeHosts::log() const {
  std::ifstream file(folder_ + "/log");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace xoe::launch
