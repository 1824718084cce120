// Mounted file systems of other machines: how they are read, and what is said of their options.
#include <gmock/gmock.h>

#include <filesystem>

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
}

TEST(Mounts, ServersThatAreNotWaitedFor) {
  EXPECT_EQ(severity("f:/a /a nfs rw,hard 0 0\n", "files.errors"), Severity::kOk);
  EXPECT_EQ(severity("f:/a /a nfs rw,soft 0 0\n", "files.errors"), Severity::kWarning);
  EXPECT_EQ(severity("f:/a /a nfs4 rw,softerr 0 0\n", "files.errors"), Severity::kWarning);
  EXPECT_EQ(severity("f:/a /a nfs ro,soft 0 0\n", "files.errors"), Severity::kNote);
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
  EXPECT_EQ(mounts_of("C:\\134 /mnt/c 9p rw,aname=drvfs;path=C:\\ 0 0\n", "TMPDIR=/mnt/c/tmp").places.size(), 1U);
}

TEST(Mounts, AnyBytesAreRead) {
  for (const std::string_view text :
       {"\\ \\0 \\04 \\9", "a b c", "\\777 \\777 nfs \\777", ",,,, / nfs ,,,,=,rsize=,=x"})
    for (const Finding& finding : check(text)) EXPECT_FALSE(finding.what.empty());
}

}  // namespace
}  // namespace xoe::doctor
