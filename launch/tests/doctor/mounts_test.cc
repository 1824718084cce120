// Mounted file systems of other machines: how they are read, and what is said of their options.
#include <gmock/gmock.h>

#include <filesystem>

#include <fmt/format.h>

#include "core/testing/scratch.h"
#include "launch/doctor/checks/mounts.h"
#include "launch/tests/doctor/findings.h"

namespace xoe::doctor {
namespace {

using ::testing::HasSubstr;

MountFacts mounts_of(std::string_view text, std::string_view variables = "") {
  const Scratch root;
  std::filesystem::create_directories(root.file("proc/self"));
  put_file(root.file("proc/self/mounts"), text);
  put_file(root.file("proc/self/environ"), variables);
  return read_mounts(Tree(root.path()));
}

Findings check(std::string_view text, std::optional<std::int64_t> mbit = {}) {
  return check_mounts(mounts_of(text), mbit);
}

Severity severity(std::string_view text, std::string_view id) { return find(check(text), id).severity; }

TEST(Mounts, OnlyThoseOfOtherMachinesCount) {
  const MountFacts facts = mounts_of(
      "/dev/sda1 / ext4 rw 0 0\n"
      "overlay /var/lib/docker overlay rw 0 0\n"
      "filer:/a /a\\040b\\134c nfs4 rw,vers=4.2,rsize=1048576 0 0\n"
      "short line\n"
      "s3fs /bucket fuse.s3fs rw 0 0\n");
  ASSERT_EQ(facts.remote.size(), 2U);
  EXPECT_EQ(facts.remote[0].point, "/a b\\c");
  EXPECT_EQ(facts.remote[0].value("rsize"), "1048576");
  EXPECT_EQ(facts.remote[0].value("size"), "");
  EXPECT_TRUE(facts.remote[0].has("rw"));
  EXPECT_FALSE(facts.remote[0].has("r"));
  const Findings local = check("/dev/sda1 / ext4 rw 0 0\n");
  EXPECT_EQ(local.size(), 1U);
  expect_states(local, {{"files.remote", Severity::kOk}});
  const Scratch empty;
  expect_states(check_mounts(read_mounts(Tree(empty.path())), {}), {{"files.remote", Severity::kSkipped}});
}

TEST(Mounts, LocksThatHoldOnThisHostAlone) {
  EXPECT_EQ(severity("f:/a /a nfs rw,local_lock=none 0 0\n", "files.locks"), Severity::kOk);
  EXPECT_EQ(severity("f:/a /a nfs4 rw,vers=4.1 0 0\n", "files.locks"), Severity::kOk);
  EXPECT_EQ(severity("f:/a /a nfs rw,nolock,local_lock=all 0 0\n", "files.locks"), Severity::kWarning);
  EXPECT_EQ(severity("f:/a /a nfs rw,local_lock=flock 0 0\n", "files.locks"), Severity::kWarning);
  // Nothing is locked that cannot be written.
  EXPECT_EQ(severity("f:/a /a nfs ro,nolock 0 0\n", "files.locks"), Severity::kOk);
  EXPECT_EQ(severity("m:/l /l lustre rw,flock 0 0\n", "files.locks"), Severity::kOk);
  EXPECT_EQ(severity("m:/l /l lustre rw,localflock 0 0\n", "files.locks"), Severity::kWarning);
  EXPECT_EQ(severity("m:/l /l lustre rw 0 0\n", "files.locks"), Severity::kWarning);
  EXPECT_EQ(severity("//s/x /x cifs rw,nobrl 0 0\n", "files.locks"), Severity::kWarning);
  EXPECT_EQ(severity("b /b fuse.s3fs rw 0 0\n", "files.locks"), Severity::kWarning);
  EXPECT_EQ(severity("blobfuse2 /b fuse.blobfuse2 rw 0 0\n", "files.locks"), Severity::kWarning);
  EXPECT_EQ(find(check("f:/a /a nfs rw 0 0\n"), "files.locks").what, "no mount option makes locks local");
}

TEST(Mounts, LocksThatLustreRefuses) {
  const Finding refused = find(check("m:/l /l lustre rw 0 0\n"), "files.locks");
  EXPECT_EQ(refused.what, "locks are refused: /l (no flock)");
  EXPECT_EQ(refused.details["local"], "");
  const Finding both = find(check("m:/l /l lustre rw 0 0\nm:/k /k lustre rw,localflock 0 0\n"), "files.locks");
  EXPECT_EQ(both.what, "locks of files hold on this host alone: /k (localflock); locks are refused: /l (no flock)");
}

TEST(Mounts, BucketsOfMountpointForS3) {
  constexpr std::string_view kBucket =
      "mountpoint-s3 /b fuse rw,nosuid,nodev,noatime,user_id=0,group_id=0,default_permissions 0 0\n";
  ASSERT_EQ(mounts_of(kBucket).remote.size(), 1U);
  EXPECT_THAT(find(check(kBucket), "files.locks").what, HasSubstr("this host alone: /b (mountpoint-s3)"));
  EXPECT_TRUE(mounts_of("other /b fuse rw 0 0\n").remote.empty());
}

TEST(Mounts, LongListsAreCut) {
  std::string many;
  for (int number = 0; number < 11; ++number) many += fmt::format("f:/a /a{} nfs rw,nolock 0 0\n", number);
  const Finding locks = find(check(many), "files.locks");
  EXPECT_THAT(locks.what, HasSubstr("/a7 (nolock) and 3 more"));
  EXPECT_THAT(locks.what, testing::Not(HasSubstr("/a8")));
  EXPECT_THAT(find(check(many), "files.remote").what, HasSubstr("/a3 (nfs of f:/a) and 7 more"));
}

TEST(Mounts, ServersThatAreNotWaitedFor) {
  EXPECT_EQ(severity("f:/a /a nfs rw,hard 0 0\n", "files.errors"), Severity::kOk);
  EXPECT_EQ(severity("f:/a /a nfs rw,soft 0 0\n", "files.errors"), Severity::kWarning);
  EXPECT_EQ(severity("f:/a /a nfs4 rw,softerr 0 0\n", "files.errors"), Severity::kWarning);
  EXPECT_EQ(severity("f:/a /a nfs ro,soft 0 0\n", "files.errors"), Severity::kNote);
  // This is SMB's default.
  EXPECT_EQ(
      severity("//srv/share /mnt/s cifs rw,relatime,vers=3.1.1,cache=strict,username=u,uid=0,noforceuid,gid=0,"
               "noforcegid,addr=10.0.0.1,file_mode=0755,dir_mode=0755,soft,nounix,serverino,mapposix,"
               "rsize=4194304,wsize=4194304,bsize=1048576,retrans=1,echo_interval=60,actimeo=1,closetimeo=1 0 0\n",
               "files.errors"),
      Severity::kOk);
}

TEST(Mounts, SmallRequestsAndOneConnection) {
  EXPECT_EQ(severity("f:/a /a nfs rw,rsize=131072,wsize=524288,proto=tcp 0 0\n", "files.transfer"), Severity::kOk);
  EXPECT_EQ(severity("f:/a /a nfs rw,rsize=32768,wsize=524288 0 0\n", "files.transfer"), Severity::kWarning);
  EXPECT_EQ(severity("f:/a /a nfs rw,proto=udp 0 0\n", "files.transfer"), Severity::kWarning);
  constexpr std::string_view kTcp = "f:/a /a nfs rw,rsize=1048576,proto=tcp 0 0\n";
  EXPECT_EQ(find(check(kTcp, 10'000), "files.transfer").severity, Severity::kOk);
  EXPECT_EQ(find(check(kTcp, 100'000), "files.transfer").severity, Severity::kNote);
  EXPECT_THAT(find(check(kTcp, 100'000), "files.transfer").fix, HasSubstr("nconnect=8"));
  EXPECT_EQ(find(check("f:/a /a nfs rw,proto=tcp,nconnect=8 0 0\n", 100'000), "files.transfer").severity,
            Severity::kOk);
}

TEST(Mounts, AttributesThatAreNotKeptOrKeptForLong) {
  EXPECT_EQ(find(check("f:/a /a nfs rw 0 0\n"), "files.attributes").severity, Severity::kOk);
  EXPECT_THAT(find(check("f:/a /a nfs rw,noac 0 0\n"), "files.attributes").what, HasSubstr("asks the server: /a"));
  EXPECT_EQ(severity("f:/a /a nfs rw,acregmin=0,acregmax=0,acdirmin=0,acdirmax=0 0 0\n", "files.attributes"),
            Severity::kNote);
  EXPECT_THAT(find(check("f:/a /a nfs rw,acdirmax=600 0 0\n"), "files.attributes").what, HasSubstr("acdirmax=600"));
  EXPECT_EQ(severity("f:/a /a nfs ro,acdirmax=600 0 0\n", "files.attributes"), Severity::kOk);
}

TEST(Mounts, FoldersOfVariablesLieOnTheDeepestMount) {
  constexpr std::string_view kMounts =
      "/dev/sda1 / ext4 rw 0 0\n"
      "f:/home /homes nfs rw 0 0\n"
      "/dev/sdb1 /homes/local ext4 rw 0 0\n"
      "f:/later /late ext4 rw 0 0\n"
      "f:/later /late nfs rw 0 0\n";
  const auto places = [&](const std::string& variables) { return mounts_of(kMounts, variables).places; };
  ASSERT_EQ(places("CONDA_PREFIX=/homes/ada/env").size(), 1U);
  EXPECT_EQ(places("CONDA_PREFIX=/homes/ada/env").front().point, "/homes");
  EXPECT_TRUE(places("CONDA_PREFIX=/homes/local/env").empty());
  EXPECT_TRUE(places("VIRTUAL_ENV=/homeslike/env").empty());
  EXPECT_EQ(places("TMPDIR=/late").size(), 1U);
  EXPECT_TRUE(places("TMPDIR=relative").empty());
  const MountFacts temporary = mounts_of(kMounts, "TMPDIR=/homes/tmp");
  expect_states(check_mounts(temporary, {}), {{"files.places", Severity::kWarning}});
}

TEST(Mounts, WhatAVirtualMachinesHostHandsInIsNear) {
  EXPECT_TRUE(mounts_of("kata / virtiofs rw 0 0\n", "TMPDIR=/tmp").places.empty());
  constexpr std::string_view kWindows =
      "none /usr/lib/wsl/drivers 9p ro,aname=drivers;fmask=222,trans=fd 0 0\n"
      "C:\\134 /mnt/c 9p rw,aname=drvfs;path=C:\\,trans=fd 0 0\n";
  const MountFacts facts = mounts_of(kWindows, "TMPDIR=/mnt/c/tmp");
  EXPECT_EQ(facts.places.size(), 1U);
  EXPECT_TRUE(facts.remote.empty());
  EXPECT_EQ(facts.handed_in.size(), 2U);
  const Findings all = check_mounts(facts, {});
  EXPECT_EQ(find(all, "files.remote").what,
            "no file system of another machine is mounted; 2 file systems of this machine's host: "
            "/usr/lib/wsl/drivers (9p of none), /mnt/c (9p of C:\\)");
  EXPECT_THAT(find(all, "files.places").what, HasSubstr("temporary files go to a disk of Windows: TMPDIR="));
  EXPECT_EQ(find(all, "files.windows").severity, Severity::kNote);
  const Findings near = check_mounts(mounts_of(kWindows, "TMPDIR=/tmp"), {});
  EXPECT_EQ(find(near, "files.places").what, "VIRTUAL_ENV, CONDA_PREFIX and TMPDIR name no folder of another machine");
  // 9p goes over the network too.
  EXPECT_EQ(mounts_of("io1 /data 9p rw,trans=tcp 0 0\n").remote.size(), 1U);
}

TEST(Mounts, AnyBytesAreRead) {
  for (const std::string_view text :
       {"\\ \\0 \\04 \\9", "a b c", "\\777 \\777 nfs \\777", ",,,, / nfs ,,,,=,rsize=,=x"})
    for (const Finding& finding : check(text)) EXPECT_FALSE(finding.what.empty());
}

}  // namespace
}  // namespace xoe::doctor
