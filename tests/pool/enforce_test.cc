// The rule on devices that stand in for GPUs: /dev/null (1:3), /dev/zero (1:5), /dev/full (1:7). Needs root.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "pool/enforce/device_rule.h"
#include "scratch.h"

namespace xoe::pool {
namespace {

using ::testing::HasSubstr;

class Enforce : public ::testing::Test {
 protected:
  Enforce() {
    for (const auto& [uuid, minor] : {std::pair("GPU-null", 3), {"GPU-zero", 5}, {"GPU-full", 7}}) {
      const std::string folder = scratch_.file(fmt::format("gpus/{}", uuid));
      std::filesystem::create_directories(folder);
      std::ofstream(folder + "/information")
          << fmt::format("Model: \t T4\nGPU UUID: \t {}\nDevice Minor: \t {}\n", uuid, minor);
    }
    places_.gpus = scratch_.file("gpus");
    places_.major = 1;
    places_.first_shared = 8;  // /dev/random
  }

  static std::string name() { return fmt::format("xoe-test-{}", ::getpid()); }

  // What a process in the cgroup gets for each of the files: 0, or an error.
  static std::vector<int> opens(const DeviceRule& rule, const std::vector<const char*>& files) {
    std::vector<int> errors;
    for (const char* file : files) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        if (!rule.enter()) ::_exit(99);
        ::_exit(::open(file, O_RDONLY) >= 0 ? 0 : errno);
      }
      int status = 0;
      ::waitpid(pid, &status, 0);
      errors.push_back(WEXITSTATUS(status));
    }
    return errors;
  }

  Scratch scratch_;
  DevicePlaces places_;
};

TEST_F(Enforce, AProcessOpensItsOwnGpusAndNoOthers) {
  auto rule = DeviceRule::create(name(), {"GPU-null"}, places_);
  if (!rule) GTEST_SKIP() << rule.error().message();
  const std::vector files = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random"};
  EXPECT_THAT(opens(*rule, files), ::testing::ElementsAre(0, EPERM, EPERM, 0));
  ASSERT_TRUE(rule->allow({"GPU-zero", "GPU-full"}));
  EXPECT_THAT(opens(*rule, files), ::testing::ElementsAre(EPERM, 0, 0, 0));
}

TEST_F(Enforce, WhatIsLeftIsKilledAndTheCgroupRemoved) {
  std::string folder;
  pid_t pid = -1;
  {
    auto rule = DeviceRule::create(name(), {"GPU-null"}, places_);
    if (!rule) GTEST_SKIP() << rule.error().message();
    folder = rule->folder();
    pid = ::fork();
    if (pid == 0) {
      static_cast<void>(rule->enter());
      ::pause();
    }
    while (std::ifstream(folder + "/cgroup.procs").peek() == std::ifstream::traits_type::eof()) ::usleep(1000);
    std::thread([pid] { ::waitpid(pid, nullptr, 0); }).detach();
  }
  EXPECT_NE(::access(folder.c_str(), F_OK), 0);
}

TEST_F(Enforce, SaysWhatItCannotDo) {
  const auto error_of = [&](const std::string& uuid) {
    const auto rule = DeviceRule::create(name(), {uuid}, places_);
    return rule ? std::string() : rule.error().message();
  };
  if (::geteuid() != 0 || !DeviceRule::create(name(), {}, places_)) GTEST_SKIP() << "needs root and cgroup v2";
  EXPECT_THAT(error_of("MIG-1"), HasSubstr("share its device file"));
  EXPECT_THAT(error_of("GPU-other"), HasSubstr("does not say which device file GPU-other has"));
  places_.mounts = "/dev/null";
  EXPECT_THAT(error_of("GPU-null"), HasSubstr("no cgroup v2"));
}

}  // namespace
}  // namespace xoe::pool
