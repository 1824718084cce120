#include "data/records/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <protozero/pbf_writer.hpp>

namespace xoe::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string entry(const std::string& name, const std::string& feature) {
  std::string map;
  {
    protozero::pbf_writer features(map);
    protozero::pbf_writer pair(features, 1);
    pair.add_string(1, name);
    pair.add_message(2, feature);
  }
  return map;
}
std::string example_of(const std::string& features) {
  std::string example;
  protozero::pbf_writer(example).add_message(1, features);
  return example;
}

std::vector<std::int64_t> integers_of(const FeatureView& feature) {
  std::vector<std::int64_t> values;
  feature.append_to(values);
  return values;
}

TEST(Example, ImageRoundTrip) {
  const std::string example = make_image_example({.encoded = "jpeg bytes",
                                                  .label = 7,
                                                  .text = "star",
                                                  .filename = "a.JPEG",
                                                  .height = 3,
                                                  .width = 4,
                                                  .channels = 1});
  const auto image = parse_image_example(example).value();
  EXPECT_EQ(image.encoded, "jpeg bytes");
  EXPECT_EQ(image.label, 7);
  std::vector<std::string> names;
  const auto view = ExampleView::parse(example).value();
  for (const FeatureView& feature : view.features()) names.emplace_back(feature.name());
  EXPECT_THAT(names,
              ElementsAre("image/height", "image/width", "image/channels", "image/colorspace", "image/class/label",
                          "image/class/text", "image/format", "image/filename", "image/encoded"));
}

// The bytes of a message written by hand from the wire format.
TEST(Example, KnownBytes) {
  const std::string bytes = {0x0a, 0x0c, 0x0a, 0x0a, 0x0a, 0x01, 'x', 0x12, 0x05, 0x1a, 0x03, 0x0a, 0x01, 0x2a};
  const auto view = ExampleView::parse(bytes).value();
  ASSERT_EQ(view.features().size(), 1U);
  EXPECT_EQ(view.features()[0].name(), "x");
  EXPECT_THAT(integers_of(view.features()[0]), ElementsAre(42));
}

TEST(Example, NumbersPackedAndNot) {
  std::string packed;
  std::string loose;
  {
    protozero::pbf_writer writer(packed);
    protozero::pbf_writer list(writer, 3);
    const std::int64_t values[] = {1, -2, 300};
    list.add_packed_int64(1, std::begin(values), std::end(values));
  }
  {
    protozero::pbf_writer writer(loose);
    protozero::pbf_writer list(writer, 2);
    list.add_float(1, 1.5F);
    list.add_float(1, -2.0F);
  }
  const std::string example = example_of(entry("a", packed) + entry("b", loose));
  const auto view = ExampleView::parse(example).value();
  EXPECT_THAT(integers_of(view.features()[0]), ElementsAre(1, -2, 300));
  std::vector<float> floats;
  view.features()[1].append_to(floats);
  EXPECT_THAT(floats, ElementsAre(1.5F, -2.0F));
}

TEST(Example, LastOfEqualNamesCounts) {
  const auto feature = [](std::int64_t value) {
    std::string text;
    protozero::pbf_writer writer(text);
    protozero::pbf_writer list(writer, 3);
    list.add_int64(1, value);
    list.commit();
    return text;
  };
  const std::string example = example_of(entry("a", feature(1)) + entry("a", feature(2)));
  const auto view = ExampleView::parse(example).value();
  ASSERT_EQ(view.features().size(), 1U);
  EXPECT_THAT(integers_of(view.features()[0]), ElementsAre(2));
}

TEST(Example, BrokenBytesAreDataLoss) {
  const std::string example =
      make_image_example({.encoded = std::string(100, 'x'), .label = 7, .text = "", .filename = ""});
  for (std::size_t size = 1; size < example.size(); ++size)
    EXPECT_EQ(parse_image_example(example.substr(0, size)).error().code(), Code::kDataLoss) << size;
  EXPECT_EQ(parse_image_example("").error().code(), Code::kDataLoss);
  EXPECT_EQ(parse_image_example(std::string(50, '\xff')).error().code(), Code::kDataLoss);
}

TEST(Example, MissingLabelIsDataLoss) {
  std::string bytes;
  {
    protozero::pbf_writer writer(bytes);
    protozero::pbf_writer list(writer, 1);
    list.add_bytes(1, "x");
  }
  EXPECT_EQ(parse_image_example(example_of(entry("image/encoded", bytes))).error().code(), Code::kDataLoss);
}

// A feature that is there is not called missing.
TEST(Example, ImagesAndLabelsOfOtherKindsAreSaid) {
  const auto list = [](int kind, const std::string& value) {
    std::string bytes;
    protozero::pbf_writer writer(bytes);
    protozero::pbf_writer values(writer, static_cast<protozero::pbf_tag_type>(kind));
    if (kind == 1) values.add_bytes(1, value);
    if (kind == 1) values.add_bytes(1, value);
    if (kind == 2) values.add_float(1, 3);
    values.commit();
    return bytes;
  };
  const auto error_with = [&](const std::string& image, const std::string& label) {
    const std::string example = example_of(entry("image/encoded", image) + entry("image/class/label", label));
    return parse_image_labels(example).error().message();
  };
  std::string one;
  {
    protozero::pbf_writer writer(one);
    protozero::pbf_writer(writer, 1).add_bytes(1, "jpeg");
  }
  EXPECT_EQ(error_with(one, list(2, "")),
            "image/class/label holds 1 values of the kind float, not whole numbers (int64)");
  EXPECT_THAT(error_with(one, list(1, "7")), HasSubstr("image/class/label holds 2 values of the kind bytes"));
  EXPECT_THAT(error_with(list(1, "j"), list(2, "")), HasSubstr("image/encoded holds 2 values of the kind bytes"));
}

TEST(Example, TooManyFeaturesAreDataLoss) {
  std::string map;
  for (int i = 0; i < 1100; ++i) map += entry("feature" + std::to_string(i), "");
  EXPECT_EQ(ExampleView::parse(example_of(map)).error().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace xoe::data
