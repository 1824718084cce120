#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/describe/json.h"
#include "core/describe/json_schema.h"

namespace xoe::describe::test {

using Span = std::chrono::milliseconds;
using Time = std::chrono::sys_time<Span>;
using ::testing::HasSubstr;

enum class Colour : std::uint8_t { kRed, kGreen };
inline constexpr std::array<std::string_view, 2> kColours = {"red", "green"};
constexpr const auto& names_of(Colour) { return kColours; }

struct Wheel {
  std::int64_t size = 0;
  std::string maker = {};
};
constexpr auto fields_of(const Wheel*) {
  return std::tuple(field<&Wheel::size>("size", {.what = "inches", .least = 1, .most = 40, .required = true}),
                    field<&Wheel::maker>("maker", {.shortest = 1, .longest = 8}));
}
constexpr std::string_view schema_name_of(const Wheel*) { return "Wheel"; }

struct Frame {
  std::string name = {};
  double height = 0.5;
};
constexpr auto fields_of(const Frame*) {
  return std::tuple(field<&Frame::name>("name", {.required = true}), field<&Frame::height>("height", {.above = 0}));
}

struct Bicycle {
  Frame frame = {};
  int gears = 3;
  std::uint8_t bells = 0;
  bool light = true;
  Colour colour = Colour::kGreen;
  Span age{1500};
  Time bought = {};
  std::optional<Time> sold = {};
  std::optional<OrNull<int>> price = {};
  std::vector<Wheel> wheels = {};
  std::vector<std::string> riders = {};
  std::string note = {};
};
constexpr auto fields_of(const Bicycle*) {
  return std::tuple_cat(
      fields_below<&Bicycle::frame>(),
      std::tuple(field<&Bicycle::gears>("gears", {.what = "of the hub", .least = 1, .most = 30}),
                 field<&Bicycle::bells>("bells"), field<&Bicycle::light>("light"), field<&Bicycle::colour>("colour"),
                 field<&Bicycle::age>("seconds", {.least = 0, .stored_as = "age"}), field<&Bicycle::bought>("bought"),
                 field<&Bicycle::sold>("sold"), field<&Bicycle::price>("price"),
                 field<&Bicycle::wheels>("wheels", {.entries = 2}), field<&Bicycle::riders>("riders"),
                 field<&Bicycle::note>("note", {.if_set = true})));
}

// The error of reading it; empty: there is none.
std::string wrong_with(const char* text, Form form = Form::kMessage) {
  Bicycle bicycle;
  const Status read = from_json(Json::parse(text), bicycle, form);
  return read ? std::string() : read.error().message();
}

TEST(Json, HasWhatTheTableNames) {
  Bicycle bicycle{.frame = {.name = "b"}, .bought = Time(Span(2500)), .wheels = {{.size = 28}}};
  EXPECT_EQ(to_json(bicycle), Json::parse(R"({"name": "b", "height": 0.5, "gears": 3, "bells": 0, "light": true,
      "colour": "green", "seconds": 1.5, "bought": 2.5, "wheels": [{"size": 28, "maker": ""}], "riders": []})"));
  bicycle.price.emplace();
  bicycle.sold = Time(Span(1));
  bicycle.note = "n";
  const Json json = to_json(bicycle);
  EXPECT_TRUE(json.at("price").is_null());
  EXPECT_EQ(json.at("sold"), 0.001);
  EXPECT_EQ(json.at("note"), "n");
}

TEST(Json, IsReadAsItIsWritten) {
  const char* const text = R"({"name": "b", "height": 2.25, "gears": 4, "bells": 255, "light": false, "colour": "red",
      "seconds": 0.25, "bought": 1e9, "sold": 5, "price": null, "wheels": [{"size": 20, "maker": "x"}],
      "riders": ["ann", "bob"], "note": "n"})";
  Bicycle bicycle;
  ASSERT_TRUE(from_json(Json::parse(text), bicycle));
  EXPECT_EQ(to_json(bicycle), Json::parse(text));
  // A field that is not there stays.
  ASSERT_TRUE(from_json(Json::parse(R"({"name": "c"})"), bicycle));
  EXPECT_EQ(bicycle.frame.name, "c");
  EXPECT_EQ(bicycle.gears, 4);
  EXPECT_EQ(bicycle.riders.size(), 2U);
}

TEST(Json, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(wrong_with("{}"), "name is missing");
  EXPECT_EQ(wrong_with("[]"), "array is not an object");
  EXPECT_EQ(wrong_with(R"({"name": "b", "gears": 31})"), "gears: 31 is not a whole number from 1 to 30");
  EXPECT_EQ(wrong_with(R"({"name": "b", "gears": 3.5})"), "gears: 3.5 is not a whole number from 1 to 30");
  EXPECT_EQ(wrong_with(R"({"name": "b", "height": 0})"), "height: 0 is not a number above 0 to inf");
  EXPECT_THAT(wrong_with(R"({"name": "b", "bells": 256})"), HasSubstr("bells: 256 is not a whole number"));
  EXPECT_THAT(wrong_with(R"({"name": "b", "bells": 18446744073709551615})"), HasSubstr("bells: "));
  EXPECT_EQ(wrong_with(R"({"name": "b", "light": 1})"), "light: 1 is neither true nor false");
  EXPECT_EQ(wrong_with(R"({"name": "b", "colour": "blue"})"), "colour: \"blue\" is none of red, green");
  EXPECT_EQ(wrong_with(R"({"name": "b", "wheels": [{"size": 2}, {"size": 0}]})"),
            "wheels: entry 1: size: 0 is not a whole number from 1 to 40");
  EXPECT_EQ(wrong_with(R"({"name": "b", "wheels": [{"size": 2, "maker": ""}]})"),
            "wheels: entry 0: maker: it is empty");
  EXPECT_EQ(wrong_with(R"({"name": "b", "wheels": [{}, {}, {}]})"), "wheels: not a list of at most 2");
  EXPECT_THAT(wrong_with(R"({"name": "two\nlines"})"), HasSubstr("name: not one line of at most 4096 bytes"));
  EXPECT_EQ(wrong_with(R"({"name": "b", "gear": 3})"), "unknown field \"gear\"");
  EXPECT_EQ(wrong_with(R"({"name": "b", "sold": null})"),
            "sold: null is not a number from -100000000000 to 100000000000");
  for (const char* const seconds : {"1e12", "-1", "null", "\"1\""})
    EXPECT_THAT(wrong_with(fmt::format(R"({{"name": "b", "seconds": {}}})", seconds).c_str()), HasSubstr("seconds: "));
}

TEST(Json, OfANewerProgramMayHaveMore) {
  EXPECT_EQ(wrong_with(R"({"name": "b", "gear": 3})", Form::kAnswer), "");
  EXPECT_EQ(wrong_with(R"({"name": "b", "wheels": [{"size": 3, "tube": true}]})", Form::kAnswer), "");
  EXPECT_EQ(wrong_with("{}", Form::kAnswer), "name is missing");
}

TEST(Json, TextsOfStrangersBecomeLines) {
  const Json json = to_json(Bicycle{.frame = {.name = "a\x1b[2J\xff"}, .riders = {std::string(9000, 'x')}});
  EXPECT_EQ(json.at("name"), "a\xef\xbf\xbd[2J\xef\xbf\xbd");
  EXPECT_EQ(json.at("riders").at(0).get<std::string>().size(), 4096U);
}

TEST(StoredJson, KeepsMillisecondsNumbersAndNames) {
  Bicycle bicycle{.frame = {.name = "two\nlines"}, .colour = Colour::kRed, .bought = Time(Span(2500))};
  const Json stored = to_json(bicycle, Form::kStored);
  EXPECT_EQ(stored.at("age"), 1500);
  EXPECT_EQ(stored.at("bought"), 2500);
  EXPECT_EQ(stored.at("colour"), 0);
  EXPECT_TRUE(stored.at("sold").is_null());
  EXPECT_FALSE(stored.contains("note"));
  Bicycle again{.gears = 7, .sold = Time(Span(1))};
  ASSERT_TRUE(from_stored_json(stored, again));
  EXPECT_EQ(to_json(again, Form::kStored), stored);
}

TEST(StoredJson, OfOtherVersionsIsRead) {
  Bicycle bicycle{.gears = 7};
  ASSERT_TRUE(from_stored_json(Json::parse(R"({"name": "b", "later": 1, "age": 7})"), bicycle));
  EXPECT_EQ(bicycle.gears, 7);
  EXPECT_EQ(bicycle.age, Span(7));
  const Status read = from_stored_json(Json::parse(R"({"name": "b", "gears": "many"})"), bicycle);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::kDataLoss);
}

struct Saddle {
  int height = 1;
  int width = 2;
};
constexpr auto fields_of(const Saddle*) {
  return std::tuple(field<&Saddle::height>("height", {.always_stored = true}), field<&Saddle::width>("width"));
}

TEST(StoredJson, WithoutWhatWasAlwaysStoredIsDamaged) {
  Saddle saddle;
  EXPECT_TRUE(from_stored_json(Json::parse(R"({"height": 5})"), saddle));
  const Status read = from_stored_json(Json::parse(R"({"width": 5})"), saddle);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::kDataLoss);
  EXPECT_EQ(read.error().message(), "height is missing");
  EXPECT_TRUE(from_json(Json::parse(R"({"width": 5})"), saddle));
}

TEST(Schema, OfInputHasTheRules) {
  const OrderedJson schema = schema_of<Bicycle>(Direction::kInput);
  EXPECT_EQ(schema.at("required"), OrderedJson({"name"}));
  EXPECT_EQ(schema.at("additionalProperties"), false);
  const OrderedJson& properties = schema.at("properties");
  EXPECT_EQ(properties.begin().key(), "name") << "in the order of the table";
  EXPECT_EQ(properties.at("gears"),
            OrderedJson::parse(
                R"({"type": "integer", "minimum": 1, "maximum": 30, "default": 3, "description": "of the hub"})"));
  EXPECT_EQ(properties.at("height"),
            OrderedJson::parse(R"({"type": "number", "exclusiveMinimum": 0.0, "default": 0.5})"));
  EXPECT_EQ(properties.at("colour"), OrderedJson::parse(R"({"enum": ["red", "green"], "default": "green"})"));
  EXPECT_EQ(properties.at("wheels"),
            OrderedJson::parse(R"({"type": "array", "items": {"$ref": "#/components/schemas/Wheel"}, "maxItems": 2})"));
  EXPECT_EQ(schema_of<Wheel>(Direction::kInput).at("properties").at("maker"),
            OrderedJson::parse(R"({"type": "string", "maxLength": 8, "minLength": 1})"));
}

TEST(Schema, OfOutputSaysWhatIsAlwaysThere) {
  const OrderedJson schema = schema_of<Bicycle>(Direction::kOutput);
  EXPECT_EQ(schema.at("required"), OrderedJson({"name", "height", "gears", "bells", "light", "colour", "seconds",
                                                "bought", "wheels", "riders"}));
  EXPECT_EQ(schema.at("properties").at("price"), OrderedJson::parse(R"({"type": ["integer", "null"]})"));
  EXPECT_EQ(schema.at("properties").at("gears"),
            OrderedJson::parse(R"({"type": "integer", "description": "of the hub"})"));
}

}  // namespace xoe::describe::test
