// Index files, and the index over files of every compression.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/testing/scratch.h"
#include "data/files/index_path.h"
#include "data/records/file_index.h"
#include "data/records/record_index.h"
#include "data/tests/record_extents.h"
#include "data/tests/record_files.h"

namespace xoe::data {
namespace {

using ::testing::HasSubstr;

// Bytes that deflate makes small, so that many restart points lie in few of them.
std::vector<std::string> write_text_records(const std::string& path, int count, Compression compression) {
  auto writer = RecordWriter::create(path, compression).value();
  std::vector<std::string> records;
  for (int i = 0; i < count; ++i) {
    std::string text;
    while (text.size() < 40000) text += "line " + std::to_string(i) + " " + std::to_string(text.size() * 7) + "\n";
    EXPECT_TRUE(writer.write(text));
    records.push_back(std::move(text));
  }
  EXPECT_TRUE(writer.finish());
  return records;
}

TEST(FileIndex, WrittenIndexIsReadAgain) {
  const Scratch scratch;
  for (const Compression compression : kCompressions) {
    write_text_records(scratch.file("a"), 200, compression);
    const FileIndex made = write_index(scratch.file("a"), {}).value();
    const FileIndex read = load_index(*open_file(scratch.file("a"))).value();
    EXPECT_EQ(read.compression, compression);
    ASSERT_EQ(read.records.size(), 200U);
    for (std::size_t i = 0; i < read.records.size(); ++i) {
      EXPECT_EQ(read.records[i].offset, made.records[i].offset);
      EXPECT_EQ(read.records[i].length, made.records[i].length);
    }
    EXPECT_EQ(read.restarts.size(), made.restarts.size());
    EXPECT_EQ(read.restarts.empty(), compression == Compression::kNone);
  }
}

// Files of any legal name are read; what is too long is said before the file is read for it.
TEST(FileIndex, ANameWithoutRoomForItsIndexIsSaid) {
  const Scratch scratch;
  const std::string longest = scratch.file(std::string(246, 'a'));
  const std::string longer = scratch.file(std::string(255, 'b'));
  for (const std::string& path : {longest, longer}) write_records(path, {5, 9, 100});
  ASSERT_TRUE(write_index(longest, {}));
  EXPECT_EQ(load_index(*open_file(longest)).value().records.size(), 3U);
  const auto written = write_index(longer, {});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(written.error().message(),
              HasSubstr("the name of its index, which ends in .xoeindex, would be too long"));
  const auto index = RecordIndex::open({longer}, {});
  ASSERT_TRUE(index) << index.error().message();
  EXPECT_EQ((*index)->records(), 3);
}

TEST(FileIndex, AnyFlippedBitIsNoticed) {
  const Scratch scratch;
  write_records(scratch.file("a"), {5, 9, 100});
  write_index(scratch.file("a"), {}).value();
  const FileStamp stamp = stamp_file(*open_file(scratch.file("a"))).value();
  const std::string whole = read_file(index_path(scratch.file("a")));
  ASSERT_TRUE(decode_index(whole, stamp));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    EXPECT_FALSE(decode_index(damaged, stamp)) << at;
    EXPECT_FALSE(decode_index(whole.substr(0, at), stamp)) << at;
  }
}

TEST(FileIndex, StaleOnesAreNoticedAndIgnored) {
  const Scratch scratch;
  write_records(scratch.file("a"), {5, 9});
  write_index(scratch.file("a"), {}).value();
  write_records(scratch.file("a"), {5, 9, 7});
  const auto stale = load_index(*open_file(scratch.file("a")));
  EXPECT_EQ(stale.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(stale.error().message(), HasSubstr("stale"));
  EXPECT_EQ(RecordIndex::open({scratch.file("a")}, {}).value()->records(), 3);
}

TEST(FileIndex, SameSizeAndTimeWithOtherContentIsStale) {
  const Scratch scratch;
  write_records(scratch.file("a"), {50});
  const auto time = std::filesystem::last_write_time(scratch.file("a"));
  write_index(scratch.file("a"), {}).value();
  put_file(scratch.file("a"), some_bytes(66, 3));
  std::filesystem::last_write_time(scratch.file("a"), time);
  EXPECT_EQ(load_index(*open_file(scratch.file("a"))).error().code(), Code::kInvalidArgument);
}

TEST(FileIndex, SavesTheScanOfTheRecords) {
  const Scratch scratch;
  write_records(scratch.file("a"), std::vector<std::size_t>(300, 5000));
  const auto time = std::filesystem::last_write_time(scratch.file("a"));
  write_index(scratch.file("a"), {}).value();
  std::string bytes = read_file(scratch.file("a"));
  bytes[5016 * 150] ^= 1;  // a header in the middle, which a scan would meet
  put_file(scratch.file("a"), bytes);
  std::filesystem::last_write_time(scratch.file("a"), time);
  const auto index = RecordIndex::open({scratch.file("a")}, {}).value();
  std::string buffer;
  EXPECT_TRUE(index->read(149, buffer));
  EXPECT_EQ(index->read(150, buffer).error().code(), Code::kDataLoss);
  EXPECT_FALSE(RecordIndex::open({scratch.file("a")}, {.use_index_files = false}));
}

TEST(RecordIndex, ReadsCompressedRecordsByNumberWithAndWithoutIndexFile) {
  const Scratch scratch;
  for (const Compression compression : kCompressions)
    for (const bool indexed : {false, true}) {
      const auto records = write_text_records(scratch.file("a"), 150, compression);
      if (indexed) write_index(scratch.file("a"), {}).value();
      const auto index = RecordIndex::open({scratch.file("a")}, {.threads = 2}).value();
      ASSERT_EQ(index->records(), 150);
      std::string buffer;
      for (const std::int64_t record : {149, 0, 75, 1, 120, 27, 148})
        EXPECT_EQ(index->read(record, buffer).value(), records[static_cast<std::size_t>(record)]);
      std::filesystem::remove(index_path(scratch.file("a")));
    }
}

TEST(RecordIndex, GzipMembersAreReadByNumberAcrossTheirBorders) {
  const Scratch scratch;
  auto records = write_text_records(scratch.file("a"), 60, Compression::kGzip);
  const auto more = write_text_records(scratch.file("b"), 60, Compression::kGzip);
  records.insert(records.end(), more.begin(), more.end());
  put_file(scratch.file("c"), read_file(scratch.file("a")) + read_file(scratch.file("b")));
  const auto index = RecordIndex::open({scratch.file("c")}, {}).value();
  ASSERT_EQ(index->records(), 120);
  std::string buffer;
  for (std::size_t i = 0; i < records.size(); i += 7)
    EXPECT_EQ(index->read(static_cast<std::int64_t>(i), buffer).value(), records[i]);
}

TEST(RecordIndex, LeavesOutDamagedFramingWhereToldTo) {
  const Scratch scratch;
  const auto records = write_records(scratch.file("a"), std::vector<std::size_t>(20, 100));
  std::string bytes = read_file(scratch.file("a"));
  bytes[116 * 3 + 1] ^= 1;
  bytes[116 * 12 + 9] ^= 1;
  put_file(scratch.file("a"), bytes.substr(0, bytes.size() - 5));
  EXPECT_EQ(RecordIndex::open({scratch.file("a")}, {}).error().code(), Code::kDataLoss);
  const RecordIndexOptions skip{.on_error = OnError::kSkip};
  for (int round = 0; round < 2; ++round) {  // scanned, then from the index file
    const auto index = RecordIndex::open({scratch.file("a")}, skip).value();
    EXPECT_EQ(index->records(), 17);
    EXPECT_EQ(index->lost(), 3);
    std::string buffer;
    EXPECT_EQ(index->read(3, buffer).value(), records[4]);
    EXPECT_EQ(index->read(16, buffer).value(), records[18]);
    const FileIndex written = write_index(scratch.file("a"), {.on_error = OnError::kSkip}).value();
    EXPECT_EQ(written.lost[0], (LostRange{.offset = 348, .bytes = 116}));
  }
  EXPECT_THAT(RecordIndex::open({scratch.file("a")}, {}).error().message(), HasSubstr("record 3"));
  const auto limited = RecordIndex::open({scratch.file("a")}, {.on_error = OnError::kSkip, .max_lost = 2});
  EXPECT_THAT(limited.error().message(), HasSubstr("more than 2 places"));
}

TEST(RecordIndex, TruncatedCompressedFilesGiveWhatIsThere) {
  const Scratch scratch;
  const auto records = write_text_records(scratch.file("a"), 100, Compression::kGzip);
  const std::string whole = read_file(scratch.file("a"));
  put_file(scratch.file("a"), whole.substr(0, whole.size() / 2));
  const RecordIndexOptions skip{.on_error = OnError::kSkip};
  for (int round = 0; round < 2; ++round) {
    const auto index = RecordIndex::open({scratch.file("a")}, skip).value();
    EXPECT_GT(index->records(), 30);
    EXPECT_LT(index->records(), 70);
    EXPECT_EQ(index->lost(), 1);
    std::string buffer;
    EXPECT_EQ(index->read(30, buffer).value(), records[30]);
    const FileIndex written = write_index(scratch.file("a"), {.on_error = OnError::kSkip}).value();
    EXPECT_EQ(written.lost[0].bytes, 0U);  // the rest
  }
}

}  // namespace
}  // namespace xoe::data
