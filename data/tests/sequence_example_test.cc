// Features in place, SequenceExamples, and the builders of both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <protozero/pbf_writer.hpp>

#include "data/records/example.h"

namespace {

// Counts what is allocated, so that a test can say that nothing is.
thread_local std::size_t allocations = 0;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace xoe::data {
namespace {

using ::testing::ElementsAre;

template <class T>
std::vector<T> values(const FeatureView* feature) {
  std::vector<T> found;
  if (feature != nullptr) feature->append_to(found);
  return found;
}

const std::vector<std::string_view> kWords = {"one", "", "three"};
const std::vector<float> kFloats = {1.5F, -2.0F};
const std::vector<std::int64_t> kIntegers = {1, -2, std::int64_t{1} << 62};

TEST(ExampleView, FindsWhatWasBuilt) {
  FeaturesBuilder builder;
  builder.add_bytes("words", kWords).add_floats("floats", kFloats).add_integers("integers", kIntegers);
  builder.add_bytes("word", "w").add_integer("integer", 7).add_floats("none", {});
  const std::string example = builder.to_example();
  const auto view = ExampleView::parse(example).value();
  EXPECT_EQ(view.features().size(), 6U);
  EXPECT_EQ(values<std::string_view>(view.find("words")), kWords);
  EXPECT_EQ(values<float>(view.find("floats")), kFloats);
  EXPECT_EQ(values<std::int64_t>(view.find("integers")), kIntegers);
  EXPECT_EQ(values<std::int64_t>(view.find("floats")), std::vector<std::int64_t>());  // another kind
  EXPECT_EQ(view.find("word")->only_bytes(), "w");
  EXPECT_EQ(view.find("integer")->only_integer(), 7);
  EXPECT_EQ(view.find("words")->only_bytes(), std::nullopt);
  EXPECT_EQ(view.find("integer")->only_float(), std::nullopt);
  EXPECT_EQ(view.find("none")->size(), 0U);
  EXPECT_EQ(view.find("none")->kind(), FeatureKind::kFloats);
  EXPECT_EQ(view.find("nothing"), nullptr);
}

TEST(ExampleView, AnImageIsFoundWithoutAllocating) {
  const std::string example = make_image_example({.encoded = std::string(50000, 'x'), .label = 7, .text = "star"});
  const std::size_t before = allocations;
  const auto image = parse_image_example(example);
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(image->encoded.size(), 50000U);
  EXPECT_EQ(image->label, 7);
}

TEST(ExampleView, LabelsCanBeSeveralOrNone) {
  FeaturesBuilder builder;
  const std::string example =
      builder.add_bytes("png", "x").add_integers("findings", kIntegers).add_integers("no findings", {}).to_example();
  const auto several = parse_image_labels(example, {.encoded = "png", .label = "findings"}).value();
  EXPECT_EQ(values<std::int64_t>(&several.labels), kIntegers);
  EXPECT_EQ(parse_image_labels(example, {.encoded = "png", .label = "no findings"}).value().labels.size(), 0U);
  EXPECT_FALSE(parse_image_labels(example, {.encoded = "png", .label = "other"}));
  EXPECT_FALSE(parse_image_labels(example, {.encoded = "png", .label = "png"}));
  EXPECT_FALSE(parse_image_example(example, {.encoded = "png", .label = "findings"}));
}

// The last list of a oneof counts; lists of one kind in a row are one.
TEST(ExampleView, ListsOfOneFeatureInSeveralPieces) {
  std::string map;
  {
    protozero::pbf_writer features(map);
    protozero::pbf_writer entry(features, 1);
    entry.add_string(1, "a");
    protozero::pbf_writer value(entry, 2);
    const auto add = [&value](std::int64_t number) {
      protozero::pbf_writer list(value, 3);
      list.add_int64(1, number);
    };
    add(1);
    {
      protozero::pbf_writer list(value, 1);
      list.add_bytes(1, "x");
    }
    add(2);
    add(3);
  }
  std::string example;
  protozero::pbf_writer(example).add_message(1, map);
  const auto view = ExampleView::parse(example).value();
  EXPECT_EQ(view.find("a")->size(), 2U);
  EXPECT_THAT(values<std::int64_t>(view.find("a")), ElementsAre(2, 3));
}

TEST(SequenceExample, ContextAndLists) {
  SequenceExampleBuilder builder;
  builder.context().add_integer("length", 2);
  builder.add_bytes("frames", kWords).add_floats("x", kFloats).add_bytes("frames", {}).add_integers("y", kIntegers);
  const std::string example = builder.to_example();
  EXPECT_EQ(example, builder.to_example());
  const auto view = SequenceExampleView::parse(example).value();
  EXPECT_EQ(view.context().find("length")->only_integer(), 2);
  ASSERT_EQ(view.lists().size(), 3U);
  ASSERT_EQ(view.find("frames")->steps.size(), 2U);
  EXPECT_EQ(values<std::string_view>(&view.find("frames")->steps[0]), kWords);
  EXPECT_EQ(view.find("frames")->steps[1].size(), 0U);
  EXPECT_EQ(values<float>(&view.find("x")->steps[0]), kFloats);
  EXPECT_EQ(values<std::int64_t>(&view.find("y")->steps[0]), kIntegers);
}

TEST(SequenceExample, BrokenBytesAreDataLoss) {
  SequenceExampleBuilder builder;
  builder.context().add_integer("length", 2);
  builder.add_bytes("frames", kWords);
  const std::string example = builder.to_example();
  int whole = 0;
  for (std::size_t size = 0; size < example.size(); ++size) {
    const auto view = SequenceExampleView::parse(example.substr(0, size));
    whole += view ? 1 : 0;
    if (!view) {
      EXPECT_EQ(view.error().code(), Code::kDataLoss) << size;
    }
  }
  EXPECT_EQ(whole, 2);  // nothing, and the context alone
  EXPECT_FALSE(SequenceExampleView::parse(std::string(50, '\xff')));
}

}  // namespace
}  // namespace xoe::data
