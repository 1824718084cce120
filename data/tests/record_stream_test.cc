// Records read one after the other: plain and compressed, saved and restored, and on behind damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/testing/scratch.h"
#include "data/files/inflate.h"
#include "data/files/tar.h"
#include "data/records/file_index.h"
#include "data/records/record_file.h"
#include "data/tests/record_files.h"
#include "xoe/data/records.h"

namespace xoe::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Outcome {
  std::vector<std::string> records;
  std::vector<std::int64_t> numbers;
  std::optional<Error> error;
};
Outcome read_all(Iterator<Record>& iterator) {
  Outcome outcome;
  for (;;) {
    auto record = iterator.next();
    if (!record) {
      outcome.error = record.error();
      EXPECT_EQ(iterator.next().error().message(), outcome.error->message());  // and stays
      return outcome;
    }
    if (!*record) return outcome;
    outcome.records.emplace_back((*record)->data);
    outcome.numbers.push_back((*record)->number);
  }
}
Outcome read_all(const std::string& path, const RecordOptions& options = {}) {
  auto iterator = read_records(path, options)->iterate(0);
  if (!iterator) return {{}, {}, iterator.error()};
  return read_all(**iterator);
}

// Small blocks, so that records cross their borders.
RecordOptions skipping(std::shared_ptr<BadRecords> bad, std::int64_t max_bad = 100) {
  return {.on_error = OnError::kSkip, .max_bad = max_bad, .bad = std::move(bad), .block_bytes = 4096};
}

void flip(std::string& bytes, std::size_t at) { bytes[at] = static_cast<char>(bytes[at] ^ 0x10); }

TEST(ReadRecords, GivesWhatWasWrittenWhateverTheCompressionAndTheBlocks) {
  const Scratch scratch;
  for (const Compression compression : kCompressions) {
    const auto records = write_records(scratch.file("a"), {0, 1, 7, 5000, 100000, 3000000, 5, 4070, 4096}, compression);
    for (const std::size_t block : {1UL, 4096UL, 100000UL, 262144UL}) {
      const Outcome outcome = read_all(scratch.file("a"), {.bad = nullptr, .block_bytes = block});
      EXPECT_FALSE(outcome.error) << outcome.error->message();
      EXPECT_EQ(outcome.records, records) << compression_name(compression);
      EXPECT_THAT(outcome.numbers, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
    }
  }
}

TEST(ReadRecords, CompressionCanBeNamed) {
  const Scratch scratch;
  write_records(scratch.file("a"), {5}, Compression::kGzip);
  EXPECT_EQ(read_all(scratch.file("a"), {.compression = Compression::kGzip, .bad = nullptr}).records.size(), 1U);
  EXPECT_EQ(read_all(scratch.file("a"), {.compression = Compression::kNone, .bad = nullptr}).error->code(),
            Code::kDataLoss);
  EXPECT_EQ(read_all(scratch.file("a"), {.compression = Compression::kZlib, .bad = nullptr}).error->code(),
            Code::kDataLoss);
}

TEST(ReadRecords, EmptyFilesHaveNoRecords) {
  const Scratch scratch;
  put_file(scratch.file("a"), "");
  EXPECT_FALSE(read_all(scratch.file("a")).error);
  for (const Compression compression : kCompressions) {
    write_records(scratch.file("a"), {}, compression);
    EXPECT_FALSE(read_all(scratch.file("a")).error) << compression_name(compression);
  }
}

TEST(ReadRecords, GzipMembersFollowEachOther) {
  const Scratch scratch;
  const auto first = write_records(scratch.file("a"), {5, 6}, Compression::kGzip);
  const auto second = write_records(scratch.file("b"), {7}, Compression::kGzip);
  put_file(scratch.file("c"), read_file(scratch.file("a")) + read_file(scratch.file("b")));
  EXPECT_THAT(read_all(scratch.file("c")).records, ElementsAre(first[0], first[1], second[0]));
}

TEST(ReadRecords, RecordsOutliveTheIterator) {
  const Scratch scratch;
  const auto records = write_records(scratch.file("a"), std::vector<std::size_t>(50, 1000));
  std::vector<Record> kept;
  {
    auto iterator = read_records(scratch.file("a"), {.bad = nullptr, .block_bytes = 4096})->iterate(0).value();
    for (auto record = iterator->next().value(); record; record = iterator->next().value()) kept.push_back(*record);
  }
  ASSERT_EQ(kept.size(), records.size());
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i].data, records[i]);
}

TEST(ReadRecords, ContinuesWhereItWasSavedAlsoBehindDamage) {
  const Scratch scratch;
  for (const Compression compression : kCompressions) {
    write_records(scratch.file("a"), std::vector<std::size_t>(40, 300), compression);
    if (compression == Compression::kNone) {
      std::string bytes = read_file(scratch.file("a"));
      flip(bytes, 316 * 3 + 50);
      flip(bytes, 316 * 20 + 2);
      put_file(scratch.file("a"), bytes);
    }
    const auto stage = read_records(scratch.file("a"), skipping(nullptr));
    auto whole = stage->iterate(0).value();
    std::vector<State> saved = {whole->save()};
    std::vector<std::string> all;
    for (auto record = whole->next().value(); record; record = whole->next().value()) {
      all.emplace_back(record->data);
      saved.push_back(State::from_text(whole->save().to_text()).value());
    }
    auto used = stage->iterate(0).value();
    for (std::size_t i = saved.size(); i-- > 0;) {
      ASSERT_TRUE(used->restore(saved[i]));
      EXPECT_EQ(used->save(), saved[i]);
      EXPECT_EQ(read_all(*used).records, std::vector<std::string>(all.begin() + static_cast<long>(i), all.end()));
    }
  }
}

TEST(ReadRecords, PositionsOfOtherFilesAreRefused) {
  const Scratch scratch;
  write_records(scratch.file("a"), {5});
  auto iterator = read_records(scratch.file("a"))->iterate(0).value();
  EXPECT_FALSE(iterator->restore({}));
  const auto state = State::from_text("records.offset=99 records.number=1 records.bad=0").value();
  EXPECT_EQ(iterator->restore(state).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(
      iterator->restore(State::from_text("records.offset=-7 records.number=1 records.bad=0").value()).error().code(),
      Code::kInvalidArgument);
}

// The law: a flipped byte costs one record, wherever it is.
TEST(ReadRecords, EveryDamagedByteCostsOneRecord) {
  const Scratch scratch;
  const auto records = write_records(scratch.file("whole"), {5, 0, 9, 40, 3});
  const std::string whole = read_file(scratch.file("whole"));
  const std::vector<std::size_t> ends = {0, 21, 37, 62, 118, 137};
  ASSERT_EQ(whole.size(), ends.back());
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int bit : {0, 3, 7}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      put_file(scratch.file("bad"), damaged);
      std::size_t lost = 0;
      while (ends[lost + 1] <= at) ++lost;
      std::vector<std::string> expected = records;
      expected.erase(expected.begin() + static_cast<long>(lost));
      const auto bad = std::make_shared<BadRecords>();
      const Outcome outcome = read_all(scratch.file("bad"), skipping(bad));
      ASSERT_FALSE(outcome.error) << outcome.error->message();
      EXPECT_EQ(outcome.records, expected) << at;
      EXPECT_EQ(bad->count(), 1);
      EXPECT_THAT(bad->first(), HasSubstr(scratch.file("bad") + ": record " + std::to_string(lost) + " at byte " +
                                          std::to_string(ends[lost]) + ": "));
      // And without leave to skip it ends there.
      const Outcome failed = read_all(scratch.file("bad"));
      EXPECT_EQ(failed.records.size(), lost);
      EXPECT_EQ(failed.error->code(), Code::kDataLoss);
    }
}

TEST(ReadRecords, TruncatedFilesCostTheirLastRecord) {
  const Scratch scratch;
  write_records(scratch.file("whole"), {5, 0, 9});
  const std::string whole = read_file(scratch.file("whole"));
  const std::vector<std::size_t> ends = {0, 21, 37, 62};
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put_file(scratch.file("cut"), whole.substr(0, size));
    std::size_t complete = 0;
    while (ends[complete + 1] <= size) ++complete;
    const auto bad = std::make_shared<BadRecords>();
    const Outcome outcome = read_all(scratch.file("cut"), skipping(bad));
    EXPECT_EQ(outcome.records.size(), complete) << size;
    EXPECT_EQ(bad->count(), size == ends[complete] ? 0 : 1) << size;
  }
}

TEST(ReadRecords, GoesOnBehindGarbageBetweenRecords) {
  const Scratch scratch;
  write_records(scratch.file("a"), {50, 60});
  const std::string part = read_file(scratch.file("a"));
  put_file(scratch.file("b"), part.substr(0, part.size() - 11) + some_bytes(20000, 1) + part);
  const auto bad = std::make_shared<BadRecords>();
  const Outcome outcome = read_all(scratch.file("b"), skipping(bad));
  EXPECT_EQ(outcome.records.size(), 3U);
  EXPECT_EQ(bad->count(), 2);  // the cut record has a right header, so it is told from the garbage
  EXPECT_THAT(bad->messages().back(), HasSubstr("left out up to byte"));
}

// A header whose own CRC alone is wrong must not make the records within its data appear.
// The damaged length is plausible in a file that long; the rest of it is a hole.
TEST(ReadRecords, DamagedLengthsOfAGigabyteCostOneRecord) {
  const Scratch scratch;
  const auto records = write_records(scratch.file("a"), {100, 200, 300});
  std::string bytes = read_file(scratch.file("a"));
  bytes[3] ^= 0x40;
  put_file(scratch.file("a"), bytes);
  std::filesystem::resize_file(scratch.file("a"), (std::uint64_t{1} << 30) + (std::uint64_t{1} << 20));
  const auto bad = std::make_shared<BadRecords>();
  auto iterator = read_records(scratch.file("a"), skipping(bad))->iterate(0).value();
  for (const std::size_t i : {1UL, 2UL}) {
    const auto record = iterator->next().value();
    ASSERT_TRUE(record);
    EXPECT_EQ(record->data, records[i]);
  }
  EXPECT_EQ(bad->count(), 1);
}

TEST(ReadRecords, RecordsWithinRecordsStayWithin) {
  const Scratch scratch;
  write_records(scratch.file("inner"), {10, 20});
  {
    auto writer = RecordWriter::create(scratch.file("outer")).value();
    ASSERT_TRUE(writer.write(read_file(scratch.file("inner"))));
    ASSERT_TRUE(writer.write("last"));
    ASSERT_TRUE(writer.finish());
  }
  std::string bytes = read_file(scratch.file("outer"));
  flip(bytes, 9);
  put_file(scratch.file("outer"), bytes);
  EXPECT_THAT(read_all(scratch.file("outer"), skipping(nullptr)).records, ElementsAre("last"));
}

TEST(ReadRecords, MoreBadOnesThanAllowedFail) {
  const Scratch scratch;
  write_records(scratch.file("a"), std::vector<std::size_t>(10, 30));
  std::string bytes = read_file(scratch.file("a"));
  for (const std::size_t record : {2U, 4U, 7U}) flip(bytes, record * 46 + 20);
  put_file(scratch.file("a"), bytes);
  EXPECT_FALSE(read_all(scratch.file("a"), skipping(nullptr, 3)).error);
  const Outcome outcome = read_all(scratch.file("a"), skipping(nullptr, 2));
  EXPECT_EQ(outcome.records.size(), 5U);
  EXPECT_THAT(outcome.error->message(), HasSubstr("more than 2 bad records"));
  EXPECT_THAT(outcome.error->message(), HasSubstr("record 7"));
}

TEST(ReadRecords, DamagedCompressedStreamsCostTheRest) {
  const Scratch scratch;
  for (const Compression compression : {Compression::kGzip, Compression::kZlib}) {
    const auto records = write_records(scratch.file("a"), std::vector<std::size_t>(100, 3000), compression);
    const std::string whole = read_file(scratch.file("a"));
    for (const std::size_t size : {20UL, whole.size() / 2, whole.size() - 1}) {
      put_file(scratch.file("cut"), whole.substr(0, size));
      const auto bad = std::make_shared<BadRecords>();
      const Outcome outcome = read_all(scratch.file("cut"), skipping(bad));
      ASSERT_FALSE(outcome.error);
      EXPECT_EQ(outcome.records,
                std::vector<std::string>(records.begin(), records.begin() + static_cast<long>(outcome.records.size())));
      EXPECT_EQ(bad->count(), 1);
      EXPECT_THAT(bad->first(), HasSubstr("truncated"));
      EXPECT_GE(outcome.records.size() + 15, 100 * size / whole.size());
      EXPECT_EQ(read_all(scratch.file("cut")).error->code(), Code::kDataLoss);
    }
    std::string flipped = whole;
    flip(flipped, whole.size() - 2);  // of the check sum at the end
    put_file(scratch.file("bad"), flipped);
    EXPECT_THAT(read_all(scratch.file("bad")).error->message(), HasSubstr("stream is damaged"));
  }
}

// A few bytes that say they are long must not take memory.
TEST(ReadRecords, LengthsInCompressedFilesAreNotBelieved) {
  const Scratch scratch;
  write_records(scratch.file("a"), std::vector<std::size_t>(1, std::size_t{1} << 20), Compression::kNone);
  std::string header = read_file(scratch.file("a")).substr(0, kRecordHeader);
  put_file(scratch.file("cut"), header + "abc");
  ASSERT_EQ(std::system(("gzip -k " + scratch.file("cut")).c_str()), 0);
  EXPECT_THAT(read_all(scratch.file("cut.gz")).error->message(), HasSubstr("truncated: 15 of its 1048592 bytes"));
}

TEST(ReadRecords, MissingFilesAreUnavailableOrSkipped) {
  const Scratch scratch;
  const Outcome outcome = read_all(scratch.file("none"));
  EXPECT_EQ(outcome.error->code(), Code::kUnavailable);
  EXPECT_THAT(outcome.error->message(), HasSubstr("No such file"));
  const auto bad = std::make_shared<BadRecords>();
  EXPECT_FALSE(read_all(scratch.file("none"), skipping(bad)).error);
  EXPECT_EQ(bad->count(), 1);
}

TEST(ReadRecords, FilesThatWentAwayBeforeARestoreCount) {
  const Scratch scratch;
  write_records(scratch.file("a"), {5, 6});
  const auto stage = read_records(scratch.file("a"), skipping(nullptr, 1));
  auto iterator = stage->iterate(0).value();
  ASSERT_TRUE(iterator->next().value());
  const State saved = iterator->save();
  std::filesystem::remove(scratch.file("a"));
  auto gone = stage->iterate(0).value();
  ASSERT_TRUE(gone->restore(saved));
  EXPECT_FALSE(gone->next().value());
  EXPECT_EQ(gone->save().pop("records.bad").value(), 1);
  // A position saved behind it has counted it already.
  auto again = stage->iterate(0).value();
  ASSERT_TRUE(again->restore(gone->save()));
  EXPECT_EQ(again->save().pop("records.bad").value(), 1);
}

TEST(ReadRecords, WhatTheFileHeldWhenOpenedCounts) {
  const Scratch scratch;
  write_records(scratch.file("a"), {5, 6});
  write_records(scratch.file("b"), std::vector<std::size_t>(3, 50000));
  auto iterator = read_records(scratch.file("a"))->iterate(0).value();
  std::ofstream(scratch.file("a"), std::ios::app) << read_file(scratch.file("b"));
  EXPECT_EQ(read_all(*iterator).records.size(), 2U);
  EXPECT_EQ(read_all(scratch.file("a")).records.size(), 5U);
}

TEST(ReadRecords, FilesThatShrinkOrVanishWhileInUse) {
  const Scratch scratch;
  write_records(scratch.file("a"), std::vector<std::size_t>(10, 5000));
  const RecordOptions small{.bad = nullptr, .block_bytes = 4096};
  auto shrinking = read_records(scratch.file("a"), {.bad = nullptr, .block_bytes = 16384})->iterate(0).value();
  ASSERT_TRUE(shrinking->next().value());
  std::filesystem::resize_file(scratch.file("a"), 4 * 5016 + 100);
  const Outcome outcome = read_all(*shrinking);
  EXPECT_EQ(outcome.error->code(), Code::kDataLoss);
  EXPECT_THAT(outcome.error->message(), HasSubstr("became shorter while it was in use"));
  EXPECT_EQ(outcome.records.size(), 3U);  // those that are still whole

  write_records(scratch.file("b"), std::vector<std::size_t>(10, 5000));
  auto vanished = read_records(scratch.file("b"), small)->iterate(0).value();
  std::filesystem::remove(scratch.file("b"));
  EXPECT_EQ(read_all(*vanished).records.size(), 10U);  // an open file stays
}

// Zeros compress a thousandfold: neither opening nor reading goes through all of them.
TEST(Inflate, BombsEndEarlyWithAnErrorThatSaysSo) {
  const Scratch scratch;
  const std::string path = scratch.file("bomb");
  ASSERT_EQ(std::system(("head -c 600000000 /dev/zero | gzip -1 > " + path).c_str()), 0);
  const auto file = std::make_shared<const OpenFile>(OpenFile::open(path).value());
  const auto source = inflate_source(file, Compression::kGzip);
  std::vector<char> block(std::size_t{1} << 20);
  std::uint64_t made = 0;
  auto got = source->read(block.data(), block.size());
  for (; got && *got > 0; got = source->read(block.data(), block.size())) made += *got;
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kDataLoss);
  EXPECT_THAT(got.error().message(), HasSubstr("as in a decompression bomb"));
  EXPECT_LT(made, std::uint64_t{300} << 20);
  // The same for everything that reads such files.
  EXPECT_FALSE(make_index(file, {}));
  const auto skipping = make_index(file, {.on_error = OnError::kSkip});
  ASSERT_TRUE(skipping);
  EXPECT_EQ(skipping->records.size(), 0U);
  TarReader archive(archive_bytes(file));
  EXPECT_THAT(archive.next().error().message(), HasSubstr("as in a decompression bomb"));
}

}  // namespace
}  // namespace xoe::data
