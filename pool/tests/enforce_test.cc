// Device rules and permissions of device files. Needs root.
//
// The rule on devices that stand in for GPUs: /dev/null (1:3), /dev/zero (1:5), /dev/full (1:7).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/testing/scratch.h"
#include "pool/enforce/device_files.h"
#include "pool/enforce/device_rule.h"

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

// --- permissions, in a folder that stands in for /dev. A file of a device without a driver cannot be opened by those
// who may either, but for another reason ---

class Files : public ::testing::Test {
 protected:
  Files() {
    places_ = places_below(scratch_.file(""));
    std::filesystem::permissions(scratch_.file(""), std::filesystem::perms(0755));
    for (const std::string& folder : {places_.gpus, places_.devices, scratch_.file("/run")})
      std::filesystem::create_directories(folder);
    put_file(places_.parameters, "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 0\n");
    for (unsigned i = 0; i < 3; ++i) {
      const std::string folder = fmt::format("{}/0000:{:02x}:00.0", places_.gpus, i);
      std::filesystem::create_directories(folder);
      put_file(folder + "/information", fmt::format("GPU UUID: \t GPU-{}\nDevice Minor: \t {}\n", i, i));
      made_ &= ::mknod(file(i).c_str(), S_IFCHR | 0666, makedev(places_.major, i)) == 0;
      made_ &= ::chmod(file(i).c_str(), 0666) == 0;
    }
  }
  void SetUp() override {
    if (::geteuid() != 0 || !made_) GTEST_SKIP() << "needs root, and device files";
    if (opens(0, kDaemon) != ENXIO) GTEST_SKIP() << "devices cannot be opened in " << places_.devices;
  }

  std::string file(unsigned gpu) const { return fmt::format("{}/nvidia{}", places_.devices, gpu); }

  // What a user gets.
  int opens(unsigned gpu, uid_t user) const {
    const std::string path = file(gpu);
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (::setgroups(0, nullptr) != 0 || ::setgid(user) != 0 || ::setuid(user) != 0) ::_exit(99);
      ::_exit(::open(path.c_str(), O_RDWR) >= 0 ? 0 : errno);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
  }
  // By GPU.
  std::vector<int> of(uid_t user) const { return {opens(0, user), opens(1, user), opens(2, user)}; }

  static constexpr uid_t kDaemon = 1, kBin = 2;  // users whom every Debian has
  static constexpr int kMay = ENXIO, kMayNot = EACCES;
  Scratch scratch_;
  DevicePlaces places_;
  bool made_ = true;
};

TEST_F(Files, OpenToTheirHoldersAndNoOthersAndAsTheyWereAfterwards) {
  ASSERT_EQ(::chown(file(2).c_str(), kBin, kBin), 0);
  ASSERT_EQ(::chmod(file(2).c_str(), 0640), 0);
  {
    auto files = DeviceFiles::open(places_);
    ASSERT_TRUE(files) << files.error().message();
    auto allowed = files->allow({{"GPU-0", "", {"daemon"}}, {"GPU-1", "", {}}, {"GPU-2", "", {}}});
    EXPECT_THAT(allowed.problems, ::testing::IsEmpty());
    EXPECT_EQ(allowed.users,
              (std::map<std::string, std::set<std::string>>{{"GPU-0", {"daemon"}}, {"GPU-1", {}}, {"GPU-2", {}}}));
    EXPECT_THAT(of(kDaemon), ::testing::ElementsAre(kMay, kMayNot, kMayNot));
    EXPECT_THAT(of(kBin), ::testing::Each(kMayNot));
    EXPECT_THAT(of(0), ::testing::Each(kMay));
    allowed = files->allow({{"GPU-0", "", {"root"}}, {"GPU-1", "", {"bin"}}, {"GPU-2", "", {"no-such-user"}}});
    EXPECT_THAT(allowed.problems, ::testing::ElementsAre("no-such-user holds GPU-2, but is no user of this host"));
    EXPECT_THAT(of(kDaemon), ::testing::Each(kMayNot));
    EXPECT_THAT(of(kBin), ::testing::ElementsAre(kMayNot, kMay, kMayNot));
    ASSERT_EQ(::chmod(file(0).c_str(), 0666), 0);  // it is undone by hand
    files->allow({{"GPU-0", "", {}}, {"GPU-1", "", {}}, {"GPU-2", "", {}}});
    EXPECT_THAT(of(kDaemon), ::testing::Each(kMayNot));
  }
  EXPECT_THAT(of(kDaemon), ::testing::ElementsAre(kMay, kMay, kMayNot));
  struct stat facts = {};
  ASSERT_EQ(::stat(file(2).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, kBin);
  EXPECT_EQ(facts.st_mode & 07777, 0640U);
  EXPECT_FALSE(std::filesystem::exists(places_.kept));
}

// The server of the users' directory is away: that a holder is not found now does not mean that there is none.
TEST_F(Files, AHolderWhoseNumberIsNotToldNowKeepsItsGpu) {
  bool answers = true;
  auto files = DeviceFiles::open(places_, [&](const std::string& name) -> Result<std::optional<uid_t>> {
    if (!answers) return failure(Code::kUnavailable, "{}", "connection refused");
    return system_user_id(name);
  });
  ASSERT_TRUE(files) << files.error().message();
  const std::vector<GpuHolders> held = {{"GPU-0", "", {"daemon"}}, {"GPU-1", "", {}}};
  ASSERT_THAT(files->allow(held).problems, ::testing::IsEmpty());
  answers = false;
  auto allowed = files->allow(held);
  EXPECT_THAT(allowed.problems, ::testing::IsEmpty());
  EXPECT_TRUE(allowed.users.at("GPU-0").contains("daemon"));
  EXPECT_THAT(of(kDaemon), ::testing::ElementsAre(kMay, kMayNot, kMay));
  // Another holder is not known yet, and the former one has its GPU no more.
  allowed = files->allow({{"GPU-0", "", {"bin"}}, {"GPU-1", "", {}}});
  EXPECT_THAT(allowed.problems, ::testing::ElementsAre("bin holds GPU-0, but the system does not tell its number now: "
                                                       "connection refused"));
  EXPECT_THAT(of(kDaemon), ::testing::ElementsAre(kMayNot, kMayNot, kMay));
  EXPECT_EQ(files->allow(held).problems.size(), 1U) << "a number is kept for those who hold something";
  answers = true;
  EXPECT_THAT(files->allow(held).problems, ::testing::IsEmpty());
  EXPECT_EQ(opens(0, kDaemon), kMay);
}

TEST_F(Files, AnAgentThatIsKilledLeavesThemToTheNext) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    auto files = DeviceFiles::open(places_);
    if (files) files->allow({{"GPU-0", "", {}}, {"GPU-1", "", {"daemon"}}});
    ::_exit(0);  // without what ends it well
  }
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  EXPECT_THAT(of(kDaemon), ::testing::ElementsAre(kMayNot, kMay, kMay));
  { ASSERT_TRUE(DeviceFiles::open(places_)); }
  EXPECT_THAT(of(kBin), ::testing::Each(kMay));
  put_file(places_.kept, "no JSON");
  EXPECT_THAT(DeviceFiles::open(places_).error().message(), HasSubstr("cannot be read"));
  DevicePlaces unseen = places_;
  unseen.kept += "/below a file";
  EXPECT_FALSE(DeviceFiles::open(unseen)) << "what cannot be looked for is not absent";
}

TEST_F(Files, HoldersOfMigInstancesShareAFile) {
  auto files = DeviceFiles::open(places_);
  ASSERT_TRUE(files);
  const auto allowed = files->allow({{"MIG-a", "00000000:01:00.0", {"daemon"}},
                                     {"MIG-b", "00000000:01:00.0", {"bin"}},
                                     {"MIG-c", "0000:07:00.0", {}}});
  EXPECT_THAT(of(kDaemon), ::testing::ElementsAre(kMay, kMay, kMay));
  EXPECT_EQ(opens(1, kBin), kMay);
  EXPECT_EQ(opens(1, 3), kMayNot);
  EXPECT_EQ(allowed.users.size(), 2U);
  EXPECT_TRUE(allowed.users.at("MIG-a").contains("bin"));
}

TEST_F(Files, WhatIsNoDeviceOfTheGpuIsLeftAlone) {
  std::filesystem::remove(file(0));
  put_file(file(0), "");
  std::filesystem::remove(file(1));
  ASSERT_EQ(::symlink(file(2).c_str(), file(1).c_str()), 0);
  auto files = DeviceFiles::open(places_);
  ASSERT_TRUE(files);
  EXPECT_TRUE(files->allow({{"GPU-0", "", {}}, {"GPU-1", "", {}}, {"GPU-9", "", {}}}).users.empty());
  EXPECT_EQ(opens(2, kDaemon), kMay);
}

TEST_F(Files, ADriverThatWouldUndoItIsAnError) {
  put_file(places_.parameters, "ModifyDeviceFiles: 1\nDeviceFileMode: 438\n");
  EXPECT_THAT(DeviceFiles::open(places_).error().message(), HasSubstr("NVreg_ModifyDeviceFiles=0"));
}

}  // namespace
}  // namespace xoe::pool
