// Files that TensorFlow wrote; tensorflow_interop.py --write-reference makes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/testing/places.h"
#include "core/testing/scratch.h"
#include "data/records/example.h"
#include "data/records/record_index.h"
#include "xoe/data/record_writer.h"
#include "xoe/data/records.h"

namespace xoe::data {
namespace {

using ::testing::ElementsAre;

std::string reference(const std::string& name) { return source_file("data/tests/reference/" + name + ".tfrecord"); }

std::vector<std::string> read_all(const std::string& path) {
  std::vector<std::string> records;
  auto iterator = read_records(path)->iterate(0).value();
  for (auto record = iterator->next().value(); record; record = iterator->next().value())
    records.emplace_back(record->data);
  return records;
}

TEST(TensorFlowFiles, EveryCompressionIsRead) {
  std::string rising;
  for (int i = 0; i < 8 * 256; ++i) rising.push_back(static_cast<char>(i % 256));
  for (const char* name : {"plain", "gzip", "zlib"}) {
    const auto records = read_all(reference(name));
    ASSERT_EQ(records.size(), 4U) << name;
    EXPECT_EQ(records[0], "");
    EXPECT_EQ(records[1], "abc");
    EXPECT_EQ(records[2], rising);
    const auto image = parse_image_example(records[3]).value();
    EXPECT_EQ(image.encoded, "\xff\xd8jpeg");
    EXPECT_EQ(image.label, 3);
    std::vector<float> scores;
    ExampleView::parse(records[3]).value().find("scores")->append_to(scores);
    EXPECT_THAT(scores, ElementsAre(0.5F, -2.0F));
    const auto index = RecordIndex::open({reference(name)}, {}).value();
    std::string buffer;
    EXPECT_EQ(index->read(2, buffer).value(), rising);
  }
}

TEST(TensorFlowFiles, PlainOnesAreWrittenAlike) {
  const Scratch scratch;
  auto writer = RecordWriter::create(scratch.file("a")).value();
  for (const std::string& record : read_all(reference("plain"))) ASSERT_TRUE(writer.write(record));
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(read_file(scratch.file("a")), read_file(reference("plain")));
}

TEST(TensorFlowFiles, SequenceExample) {
  const auto records = read_all(reference("sequence"));
  ASSERT_EQ(records.size(), 1U);
  const auto view = SequenceExampleView::parse(records[0]).value();
  EXPECT_EQ(view.context().find("length")->only_integer(), 2);
  const FeatureListView* frames = view.find("frames");
  ASSERT_NE(frames, nullptr);
  ASSERT_EQ(frames->steps.size(), 2U);
  EXPECT_EQ(frames->steps[0].only_bytes(), "one");
  std::vector<std::string_view> second;
  frames->steps[1].append_to(second);
  EXPECT_THAT(second, ElementsAre("two", "three"));
  EXPECT_EQ(view.find("labels")->steps[1].size(), 0U);
  EXPECT_EQ(view.find("none"), nullptr);
}

// The same message from our own builder.
TEST(TensorFlowFiles, SequenceExampleIsBuiltAlike) {
  SequenceExampleBuilder builder;
  builder.context().add_integer("length", 2);
  const std::vector<std::string_view> one = {"one"};
  const std::vector<std::string_view> more = {"two", "three"};
  const std::vector<std::int64_t> label = {-1};
  builder.add_bytes("frames", one).add_bytes("frames", more).add_integers("labels", label).add_integers("labels", {});
  EXPECT_EQ(builder.to_example(), read_all(reference("sequence"))[0]);
}

}  // namespace
}  // namespace xoe::data
