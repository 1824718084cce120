#include "data/files/tar.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/testing/scratch.h"
#include "data/tests/record_files.h"

namespace xoe::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const OpenFile> open(const std::string& path) {
  return std::make_shared<const OpenFile>(OpenFile::open(path).value());
}

// Names and data; behind damage with `resynchronise`, whose number goes to `damaged`.
std::vector<std::pair<std::string, std::string>> read(const std::string& path, int* damaged = nullptr) {
  const auto file = open(path);
  TarReader reader(archive_bytes(file));
  std::vector<std::pair<std::string, std::string>> members;
  for (;;) {
    auto member = reader.next();
    if (!member && damaged != nullptr) {
      ++*damaged;
      EXPECT_TRUE(reader.resynchronise());
      continue;
    }
    if (!member) {
      ADD_FAILURE() << member.error().message();
      return members;
    }
    if (!*member) return members;
    std::string data((*member)->bytes, '\0');
    EXPECT_TRUE(file->read_at((*member)->offset, data.data(), data.size()));
    members.emplace_back((*member)->name, data);
  }
}

std::string write(const Scratch& scratch, const std::vector<std::pair<std::string, std::string>>& members) {
  auto writer = TarWriter::create(scratch.file("a.tar")).value();
  for (const auto& [name, data] : members) EXPECT_TRUE(writer.write(name, data));
  EXPECT_TRUE(writer.finish());
  return scratch.file("a.tar");
}

const std::vector<std::pair<std::string, std::string>> kMembers = {
    {"0001.jpg", "jpeg"},
    {"0001.cls", "3"},
    {"empty.txt", ""},
    {std::string(150, 'd') + "/0002.png", std::string(700, 'x')}};

TEST(Tar, ReadsWhatWasWritten) {
  const Scratch scratch;
  EXPECT_EQ(read(write(scratch, kMembers)), kMembers);
}

// Compresses a file in place, without a name in it.
std::string gzipped(const std::string& path) {
  EXPECT_EQ(std::system(("gzip -n " + path).c_str()), 0);
  return path + ".gz";
}

// Members read by their places, and in between, as in a plain archive.
TEST(Tar, ReadsGzipFiles) {
  const Scratch scratch;
  auto members = kMembers;
  for (int i = 0; i < 200; ++i) members.emplace_back(fmt::format("{}.bin", i), some_bytes(std::size_t{40'000}, i));
  const auto file = open(gzipped(write(scratch, members)));
  RestartPoints points;
  TarReader reader(archive_bytes(file, &points));
  std::vector<TarMember> found;
  for (auto member = reader.next().value(); member; member = reader.next().value()) found.push_back(*member);
  ASSERT_EQ(found.size(), members.size());
  const auto restarts = points.take();
  EXPECT_GT(restarts.size(), 3U);
  for (const std::size_t i : {std::size_t{203}, std::size_t{0}, std::size_t{101}, std::size_t{3}}) {
    EXPECT_EQ(found[i].name, members[i].first);
    const auto source = inflate_source_near(file, Compression::kGzip, restarts, found[i].offset);
    ASSERT_TRUE(source->seek(found[i].offset));
    std::string data;
    ASSERT_TRUE(append_bytes(*source, found[i].bytes, data));
    EXPECT_EQ(data, members[i].second);
  }
}

// Every damage is noticed, as in a plain archive, and reading ends.
TEST(Tar, DamagedGzipFilesEnd) {
  const Scratch scratch;
  const std::string plain = write(scratch, kMembers);
  const std::string content = read_file(plain);
  const std::string path = gzipped(plain);
  const std::string whole = read_file(path);
  const auto walk = [&](const std::string& damaged) {
    put_file(path, damaged);
    TarReader reader(archive_bytes(open(path)));
    int problems = 0;
    for (bool more = true; more;) {
      const auto member = reader.next();
      if (!member) ++problems;
      more = member ? member->has_value() : reader.resynchronise().has_value();
    }
    return problems;
  };
  EXPECT_EQ(walk(whole), 0);
  for (std::size_t size = 2; size < whole.size(); ++size) EXPECT_GT(walk(whole.substr(0, size)), 0) << size;
  for (std::size_t at = 10; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 16);
    // In a run of zeros another distance gives the same bytes.
    std::string inflated;
    const int problems = walk(damaged);
    const bool same =
        append_bytes(*inflate_source(open(path), Compression::kGzip), content.size(), inflated) && inflated == content;
    EXPECT_TRUE(problems > 0 || same) << at;
  }
}

TEST(Tar, TarReadsWhatIsWrittenAndIsRead) {
  if (std::system("tar --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no tar program here";
  const Scratch scratch;
  const std::string path = write(scratch, kMembers);
  ASSERT_EQ(
      std::system(("mkdir " + scratch.file("out") + " && tar -xf " + path + " -C " + scratch.file("out")).c_str()), 0);
  for (const auto& [name, data] : kMembers) EXPECT_EQ(read_file(scratch.file("out/" + name)), data);
  for (const char* format : {"ustar", "gnu", "posix", "oldgnu", "v7"}) {
    const std::string names = std::string(format) == "v7" ? "0001.jpg empty.txt" : "0001.jpg " + kMembers[3].first;
    const std::string pack = "tar --format=" + std::string(format) + " -cf ../b.tar " + names;
    ASSERT_EQ(std::system(("cd " + scratch.file("out") + " && " + pack).c_str()), 0) << format;
    const auto members = read(scratch.file("b.tar"));
    ASSERT_EQ(members.size(), 2U) << format;
    EXPECT_EQ(members[0], kMembers[0]);
    EXPECT_EQ(members[1], std::string(format) == "v7" ? kMembers[2] : kMembers[3]);
  }
}

TEST(Tar, DamagedHeadersAreFoundAndPassedOver) {
  const Scratch scratch;
  const std::string path = write(scratch, {{"a", "1"}, {"b", "2"}, {"c", "3"}});
  std::string bytes = read_file(path);
  bytes[2 * kTarBlock + 5] ^= 1;
  put_file(path, bytes);
  TarReader reader(archive_bytes(open(path)));
  ASSERT_TRUE(reader.next().value());
  EXPECT_THAT(reader.next().error().message(), HasSubstr("checksum"));
  EXPECT_EQ(reader.offset(), 2 * kTarBlock);
  int damaged = 0;
  EXPECT_THAT(read(path, &damaged), ElementsAre(std::pair("a", "1"), std::pair("c", "3")));
  EXPECT_EQ(damaged, 1);
}

TEST(Tar, TruncatedArchivesAreDataLoss) {
  const Scratch scratch;
  const std::string path = write(scratch, {{"a", std::string(2000, 'x')}});
  const std::string bytes = read_file(path);
  for (const std::size_t size : {100UL, 512UL, 600UL, 2000UL}) {
    put_file(path, bytes.substr(0, size));
    const auto member = TarReader(archive_bytes(open(path))).next();
    ASSERT_FALSE(member) << size;
    EXPECT_EQ(member.error().code(), Code::kDataLoss);
    EXPECT_THAT(member.error().message(), HasSubstr("truncated"));
  }
}

// Puts the checksum of a header in its place; `sum_of` says what a byte counts.
std::string with_checksum(
    std::string block,
    int (*sum_of)(char) = [](char byte) { return static_cast<int>(static_cast<std::uint8_t>(byte)); }) {
  block.replace(148, 8, 8, ' ');
  int sum = 0;
  for (const char byte : block) sum += sum_of(byte);
  return block.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
}

// A header as pax writes it.
std::string header(const std::string& name, char type, std::size_t bytes) {
  std::string block(kTarBlock, '\0');
  block.replace(0, name.size(), name);
  block.replace(124, 11, fmt::format("{:011o}", bytes));
  block[156] = type;
  block.replace(257, 8,
                std::string("ustar\0"
                            "00",
                            8));
  return with_checksum(std::move(block));
}
std::string entry(const std::string& name, char type, std::string data) {
  std::string all = header(name, type, data.size());
  data.resize((data.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
  return all + data;
}

TEST(Tar, WhatFollowsZerosIsNotPassedOverInSilence) {
  const Scratch scratch;
  const std::string a = read_file(write(scratch, {{"a", "1"}}));
  const std::string b = read_file(write(scratch, {{"b", "2"}}));
  const std::string path = scratch.file("both.tar");
  for (const std::string& first : {a, a.substr(0, 2 * kTarBlock) + std::string(kTarBlock, '\0')}) {
    put_file(path, first + b);
    TarReader reader(archive_bytes(open(path)));
    ASSERT_TRUE(reader.next().value());
    const auto end = reader.next();
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().code(), Code::kDataLoss);
    EXPECT_THAT(end.error().message(), HasSubstr(fmt::format("other bytes from byte {} on", first.size())));
    int damaged = 0;
    EXPECT_THAT(read(path, &damaged), ElementsAre(std::pair("a", "1"), std::pair("b", "2")));
    EXPECT_EQ(damaged, 1);
  }
  put_file(path, a + std::string(20 * kTarBlock, '\0'));  // tar fills its last record
  EXPECT_THAT(read(path), ElementsAre(std::pair("a", "1")));
  put_file(path, a.substr(0, 3 * kTarBlock));
  EXPECT_THAT(read(path), ElementsAre(std::pair("a", "1")));
}

TEST(Tar, SizesAndNamesOfPaxAreTheMembersWhateverStandsBetween) {
  const Scratch scratch;
  put_file(scratch.file("a.tar"), entry("pax", 'x', "9 size=3\n11 path=pa\n") + entry("global", 'g', "8 a=bcd\n") +
                                      entry("link", 'K', std::string(700, 'l')) + header("short", '0', 0) +
                                      std::string("abc").append(kTarBlock - 3, '\0') + entry("next", '0', "n"));
  EXPECT_THAT(read(scratch.file("a.tar")), ElementsAre(std::pair("pa", "abc"), std::pair("next", "n")));
}

// Headers of links tell the size of what they lead to, those of folders anything; neither has data.
TEST(Tar, WhatIsNoRegularFileIsNamedAndHidesNoOther) {
  const Scratch scratch;
  // GNU's sparse files: a map of four blocks in the header, the rest of it behind, then the data.
  std::string sparse = header("s.jpg", 'S', 700);
  sparse[482] = 1;
  sparse = with_checksum(std::move(sparse));
  std::string map(2 * kTarBlock, '\0');
  map[504] = 1;
  put_file(scratch.file("a.tar"),
           header("folder", '5', 4096) + header("h.jpg", '1', 700) + entry("1", '0', "one") + header("y.jpg", '2', 0) +
               sparse + map + std::string(2 * kTarBlock, 'd') + entry("2", '7', "two") +
               entry("pax", 'x',
                     "22 GNU.sparse.major=1\n38 path=./GNUSparseFile.0/made-up.jpg\n25 GNU.sparse.name=p.jpg\n") +
               entry("x", '0', "map and data") + header("p", '6', 0) + header("d", '4', 0) + entry("3", '0', "three"));
  TarReader reader(archive_bytes(open(scratch.file("a.tar"))));
  std::vector<std::string> members;
  for (auto member = reader.next().value(); member; member = reader.next().value())
    members.push_back(fmt::format("{} {}", member->name, member->instead));
  EXPECT_THAT(members, ElementsAre("h.jpg a hard link", "1 ", "y.jpg a symbolic link", "s.jpg a sparse file", "2 ",
                                   "p.jpg a sparse file", "p a pipe", "d a device", "3 "));
  put_file(scratch.file("a.tar"), sparse + map.substr(0, kTarBlock));
  EXPECT_THAT(TarReader(archive_bytes(open(scratch.file("a.tar")))).next().error().message(), HasSubstr("truncated"));
}

// As in `tar --label`, whose header has blank numbers, and in incremental archives, where 'D' lists a folder.
TEST(Tar, LabelsAndListsOfFoldersArePassedOver) {
  const Scratch scratch;
  std::string label = header("photos.png", 'V', 0).replace(100, 24, 24, '\0').replace(124, 12, 12, '\0');
  put_file(scratch.file("a.tar"), with_checksum(label) + entry("folder/", 'D', "Ya.jpg") + header("old/", '\0', 0) +
                                      entry("a.jpg", '0', "jpeg"));
  EXPECT_THAT(read(scratch.file("a.tar")), ElementsAre(std::pair("a.jpg", "jpeg")));
}

TEST(Tar, LabelsOfTheTarProgramArePassedOver) {
  if (std::system("tar --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no tar program here";
  const Scratch scratch;
  put_file(scratch.file("a.jpg"), "jpeg");
  for (const char* format : {"gnu", "oldgnu", "posix"}) {
    const std::string pack = "tar --label photos --format=" + std::string(format) + " -cf a.tar a.jpg";
    ASSERT_EQ(std::system(("cd " + scratch.path() + " && " + pack).c_str()), 0) << format;
    EXPECT_THAT(read(scratch.file("a.tar")), ElementsAre(std::pair("a.jpg", "jpeg"))) << format;
  }
}

// As Python's tarfile: a blank size is 0, whatever white space it has.
TEST(Tar, BlankSizesAreNone) {
  const Scratch scratch;
  for (const std::string& blank : {std::string(12, ' '), std::string(12, '\0'), std::string("\t\n \0        ", 12)}) {
    const std::string empty = with_checksum(header("empty", '0', 0).replace(124, 12, blank));
    put_file(scratch.file("a.tar"), empty + entry("a.jpg", '0', "jpeg"));
    EXPECT_THAT(read(scratch.file("a.tar")), ElementsAre(std::pair("empty", ""), std::pair("a.jpg", "jpeg")));
  }
  put_file(scratch.file("a.tar"), with_checksum(header("a", '0', 0).replace(124, 12, "12x         ")));
  EXPECT_THAT(TarReader(archive_bytes(open(scratch.file("a.tar")))).next().error().message(), HasSubstr("no number"));
}

// The programs of Sun and NeXT added up signed bytes.
TEST(Tar, ChecksumsOfSignedBytesAreRight) {
  const Scratch scratch;
  const std::string old = with_checksum(header("caf\xe9.jpg", '0', 0),
                                        [](char byte) { return static_cast<int>(static_cast<std::int8_t>(byte)); });
  put_file(scratch.file("a.tar"), old + entry("a.jpg", '0', "jpeg"));
  EXPECT_THAT(read(scratch.file("a.tar")), ElementsAre(std::pair("caf\xe9.jpg", ""), std::pair("a.jpg", "jpeg")));
  // Zeros are the sum of nothing: an empty checksum is none.
  std::string unsummed = header("a", '0', 0).replace(148, 8, 8, '\0');
  put_file(scratch.file("a.tar"), unsummed);
  EXPECT_FALSE(TarReader(archive_bytes(open(scratch.file("a.tar")))).next());
}

TEST(Tar, NamesThatCannotBeAreRefused) {
  const Scratch scratch;
  auto writer = TarWriter::create(scratch.file("a")).value();
  EXPECT_EQ(writer.write("", "x").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(writer.write(std::string_view("a\0b", 3), "x").error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace xoe::data
