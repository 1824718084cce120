// Writing TFRecord files, with nothing but public headers.
#include "xoe/data/record_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "core/testing/scratch.h"

namespace xoe::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> records_in(const std::string& path) {
  std::vector<std::string> records;
  const auto walk = read_records(path)->iterate(0).value();
  while (const auto record = walk->next().value()) records.emplace_back(record->data);
  return records;
}

TEST(RecordWriter, WritesWhatIsReadAgain) {
  const Scratch scratch;
  const std::string large(300000, 'x');
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    const std::string path = scratch.file(std::string(compression_name(compression)));
    auto writer = RecordWriter::create(path, compression).value();
    for (const std::string& record : {std::string("one"), std::string(), large}) ASSERT_TRUE(writer.write(record));
    EXPECT_EQ(writer.records(), 3);
    EXPECT_EQ(writer.bytes(), 3 + 300000 + 3 * 16U);
    EXPECT_FALSE(std::filesystem::exists(path)) << "before finish()";
    RecordWriter moved(std::move(writer));
    ASSERT_TRUE(moved.complete());
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE(moved.finish());
    EXPECT_THAT(records_in(path), ElementsAre("one", "", large));
  }
}

TEST(RecordWriter, LeavesNothingWithoutFinish) {
  const Scratch scratch;
  {
    auto writer = RecordWriter::create(scratch.file("a")).value();
    ASSERT_TRUE(writer.write("gone"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  EXPECT_EQ(RecordWriter::create(scratch.file("none/a")).error().code(), Code::kUnavailable);
}

TEST(RecordWriter, ReplacesWhatIsThereAtOnce) {
  const Scratch scratch;
  put_file(scratch.file("a"), "no records");
  auto writer = RecordWriter::create(scratch.file("a")).value();
  EXPECT_EQ(read_file(scratch.file("a")), "no records");
  ASSERT_TRUE(writer.finish());
  EXPECT_THAT(records_in(scratch.file("a")), IsEmpty());
}

}  // namespace
}  // namespace xoe::data
