// CRC32C, and TFRecord files: written, read, cut short and damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "core/testing/scratch.h"
#include "data/files/listing.h"
#include "data/records/crc32c.h"
#include "data/records/record_index.h"
#include "data/tests/record_extents.h"
#include "data/tests/record_files.h"
#include "xoe/data/record_writer.h"

namespace xoe::data {
namespace {

using ::testing::HasSubstr;

// RFC 3720, B.4, and the usual check value.
TEST(Crc32c, PublishedValues) {
  std::string rising(32, '\0');
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<char>(i);
  const std::string falling(rising.rbegin(), rising.rend());
  const std::pair<std::string, std::uint32_t> known[] = {{"", 0},
                                                         {"123456789", 0xe3069283U},
                                                         {std::string(32, '\0'), 0x8a9136aaU},
                                                         {std::string(32, '\xff'), 0x62a8ab43U},
                                                         {rising, 0x46dd794eU},
                                                         {falling, 0x113fdb5cU}};
  for (const auto& [bytes, crc] : known) {
    EXPECT_EQ(crc32c(bytes), crc);
    EXPECT_EQ(crc32c_portable(bytes), crc);
  }
}

TEST(Crc32c, HardwareAndTablesAgreeOnEveryLengthAndAlignment) {
  if (!crc32c_has_hardware()) GTEST_SKIP() << "no CRC instruction here";
  const std::string bytes = some_bytes(700, 1);
  for (std::size_t start = 0; start < 9; ++start)
    for (std::size_t size = 0; start + size <= bytes.size(); ++size) {
      const auto part = std::string_view(bytes).substr(start, size);
      ASSERT_EQ(crc32c_hardware(part), crc32c_portable(part)) << start << " " << size;
      if (crc32c_has_wide()) {
        ASSERT_EQ(crc32c_wide(part), crc32c_portable(part)) << start << " " << size;
      }
    }
}

// The records in front of the first error, and the message of that error.
struct ReadOutcome {
  std::size_t good = 0;
  std::string error;
  Code code = Code::kInternal;
};
ReadOutcome read_all(const std::string& path) {
  ReadOutcome outcome;
  const auto fail = [&outcome](const Error& error) {
    outcome.error = error.message();
    outcome.code = error.code();
    return outcome;
  };
  auto opened = OpenFile::open(path);
  if (!opened) return fail(opened.error());
  const RecordFile file(std::make_shared<const OpenFile>(std::move(*opened)));
  std::string buffer;
  for (std::uint64_t offset = 0; offset < file.bytes();) {
    const auto place = file.extent_at(offset, static_cast<std::int64_t>(outcome.good));
    if (!place) return fail(place.error());
    const auto data = file.read(*place, static_cast<std::int64_t>(outcome.good), buffer);
    if (!data) return fail(data.error());
    ++outcome.good;
    offset = place->end();
  }
  return outcome;
}

TEST(RecordFile, ReadsWhatWasWritten) {
  const Scratch scratch;
  const auto records = write_records(scratch.file("a"), {0, 1, 7, 100000, 3000000, 5});
  const RecordFile file(open_file(scratch.file("a")));
  const auto places = extents_of(scratch.file("a"));
  ASSERT_EQ(places.size(), records.size());
  std::string buffer;
  for (std::size_t i = records.size(); i-- > 0;)
    EXPECT_EQ(file.read(places[i], static_cast<std::int64_t>(i), buffer).value(), records[i]);
}

TEST(RecordFile, EmptyFileHasNoRecords) {
  const Scratch scratch;
  put_file(scratch.file("a"), "");
  EXPECT_TRUE(extents_of(scratch.file("a")).empty());
}

// The bytes that TensorFlow's writer makes of the record "abc".
TEST(RecordFile, IsTensorFlowsFormat) {
  const Scratch scratch;
  auto writer = RecordWriter::create(scratch.file("a")).value();
  ASSERT_TRUE(writer.write("abc"));
  ASSERT_TRUE(writer.finish());
  const std::string bytes = read_file(scratch.file("a"));
  ASSERT_EQ(bytes.size(), 19U);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(12, 3), "abc");
  // Rotated by 15 and offset, little-endian.
  const std::uint32_t crc = crc32c("abc");
  EXPECT_EQ(crc, 0x364b3fb7U);
  EXPECT_EQ(static_cast<std::uint8_t>(bytes[15]), (((crc >> 15) | (crc << 17)) + 0xa282ead8U) & 0xff);
}

TEST(RecordFile, EveryTruncationIsFoundAndPlaced) {
  const Scratch scratch;
  write_records(scratch.file("whole"), {5, 0, 9});
  const std::string whole = read_file(scratch.file("whole"));
  const std::vector<std::size_t> ends = {0, 21, 37, 62};
  ASSERT_EQ(whole.size(), ends.back());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put_file(scratch.file("cut"), whole.substr(0, size));
    const ReadOutcome outcome = read_all(scratch.file("cut"));
    std::size_t complete = 0;
    while (ends[complete + 1] <= size) ++complete;
    EXPECT_EQ(outcome.good, complete) << size;
    if (size == ends[complete]) {
      EXPECT_EQ(outcome.error, "") << size;
      continue;
    }
    EXPECT_EQ(outcome.code, Code::kDataLoss) << size;
    EXPECT_THAT(outcome.error, HasSubstr(scratch.file("cut") + ": record " + std::to_string(complete) + " at byte " +
                                         std::to_string(ends[complete]) + ": truncated"));
  }
}

TEST(RecordFile, EveryDamagedByteIsFoundAndPlaced) {
  const Scratch scratch;
  write_records(scratch.file("whole"), {5, 0, 9});
  const std::string whole = read_file(scratch.file("whole"));
  const std::vector<std::size_t> ends = {0, 21, 37, 62};
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int bit : {0, 3, 7}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      put_file(scratch.file("bad"), damaged);
      const ReadOutcome outcome = read_all(scratch.file("bad"));
      std::size_t record = 0;
      while (ends[record + 1] <= at) ++record;
      EXPECT_EQ(outcome.good, record) << at;
      EXPECT_EQ(outcome.code, Code::kDataLoss) << at;
      EXPECT_THAT(outcome.error,
                  HasSubstr("record " + std::to_string(record) + " at byte " + std::to_string(ends[record])));
      EXPECT_THAT(outcome.error,
                  HasSubstr(at - ends[record] < kRecordHeader ? "CRC of its length" : "of data is wrong"));
    }
}

// A header with a right CRC and a huge length must not lead to an allocation.
TEST(RecordFile, AbsurdLengthsAreBounded) {
  const Scratch scratch;
  for (const std::uint64_t length : {std::uint64_t{1} << 30, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    std::string header;
    for (int i = 0; i < 8; ++i) header.push_back(static_cast<char>((length >> (8 * i)) & 0xff));
    const std::uint32_t crc = mask_crc(crc32c(header));
    for (int i = 0; i < 4; ++i) header.push_back(static_cast<char>((crc >> (8 * i)) & 0xff));
    put_file(scratch.file("bad"), header + "abc");
    const ReadOutcome outcome = read_all(scratch.file("bad"));
    EXPECT_EQ(outcome.code, Code::kDataLoss);
    EXPECT_THAT(outcome.error, HasSubstr("record 0 at byte 0"));
  }
}

TEST(RecordFile, MissingFilesAndDirectoriesAreUnavailable) {
  const Scratch scratch;
  EXPECT_EQ(OpenFile::open(scratch.file("none")).error().code(), Code::kUnavailable);
  EXPECT_EQ(OpenFile::open(scratch.path()).error().code(), Code::kUnavailable);
}

TEST(RecordFile, FileThatShrinksWhileInUseIsDataLoss) {
  const Scratch scratch;
  write_records(scratch.file("a"), {5, 9});
  const RecordFile file(open_file(scratch.file("a")));
  const auto places = extents_of(scratch.file("a"));
  std::filesystem::resize_file(scratch.file("a"), 30);
  std::string buffer;
  EXPECT_EQ(file.read(places[1], 1, buffer).error().code(), Code::kDataLoss);
}

TEST(RecordWriter, NothingStaysWithoutFinish) {
  const Scratch scratch;
  {
    auto writer = RecordWriter::create(scratch.file("a")).value();
    ASSERT_TRUE(writer.write("abc"));
    auto moved = std::move(writer);
    ASSERT_TRUE(moved.complete());
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(RecordWriter, FullDiskIsResourceExhausted) {
  const Scratch scratch;
  auto full = RecordWriter::create(scratch.file("a")).value();
  // A limit is reached where a disk would be full.
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{1 << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const std::string big(3 << 20, 'x');
  const Status written = full.write(big);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code(), Code::kResourceExhausted);
  EXPECT_THAT(written.error().message(), HasSubstr(scratch.file("a")));
}

TEST(MatchFiles, SortsAndLeavesOutHiddenOnes) {
  const Scratch scratch;
  for (const auto* name : {"train-2", "train-1", ".train-3.unfinished-1", "validation-1"})
    put_file(scratch.file(name), "");
  std::filesystem::create_directory(scratch.file("train-9"));
  EXPECT_EQ(match_files(scratch.path(), "train-*").value(),
            (std::vector<std::string>{scratch.file("train-1"), scratch.file("train-2"), scratch.file("train-9")}));
  EXPECT_EQ(match_files(scratch.path(), "test-*").error().code(), Code::kUnavailable);
  EXPECT_EQ(match_files(scratch.file("none"), "*").error().code(), Code::kUnavailable);
}

TEST(RecordIndex, NumbersRecordsOverFilesAndOpensManyFiles) {
  const Scratch scratch;
  std::vector<std::string> paths;
  std::vector<std::string> all;
  for (int i = 0; i < 300; ++i) {  // more than are kept open
    paths.push_back(scratch.file("f" + std::to_string(1000 + i)));
    const auto records = write_records(
        paths.back(), std::vector<std::size_t>(static_cast<std::size_t>(i % 3), 10 + static_cast<std::size_t>(i)));
    all.insert(all.end(), records.begin(), records.end());
  }
  const auto index = RecordIndex::open(paths, {.threads = 3}).value();
  ASSERT_EQ(index->records(), static_cast<std::int64_t>(all.size()));
  std::string buffer;
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(index->read(static_cast<std::int64_t>(i), buffer).value(), all[i]);
  EXPECT_TRUE(contains(index->name(0), "f1001: record 0 at byte 0"));
  std::filesystem::remove(paths[1]);
  EXPECT_THAT(index->read(0, buffer).error().message(), HasSubstr("f1001: record 0 at byte 0: "));
}

}  // namespace
}  // namespace xoe::data
