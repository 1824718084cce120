#include "core/command_line/parse/field_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/describe/option_list.h"

namespace xoe::tools::test {

using ::testing::HasSubstr;
using ::testing::Not;

enum class Colour : std::uint8_t { kRed, kGreen };
std::string_view colour_name(Colour colour) { return describe::name_among({"red", "green"}, colour); }

struct Bicycle {
  int gears = 3;
  std::int64_t spokes = -1;
  double weight = 0;
  std::optional<double> price = {};
  Colour colour = Colour::kRed;
  bool light = true;
  bool bell = false;
  std::string maker = {};
  int inner = 7;
};

}  // namespace xoe::tools::test

namespace xoe::describe {
template <>
struct TextForm<tools::test::Colour> : EnumForm<tools::test::Colour, tools::test::colour_name> {};
}  // namespace xoe::describe

namespace xoe::tools::test {

constexpr auto fields_of(const Bicycle*) {
  using describe::field;
  return std::tuple(
      field<&Bicycle::gears>("gears", {.what = "of the hub", .least = 1, .most = 30, .group = "Parts", .option = true}),
      field<&Bicycle::spokes>("spokes", {.least = 8, .automatic = -1, .option = true}),
      field<&Bicycle::light>("light", {.what = "in front", .if_set = true, .option = true}),
      field<&Bicycle::bell>("bell", {.if_set = true, .option = true}),
      field<&Bicycle::inner>("inner", {.if_set = true}),
      field<&Bicycle::weight>("dry_weight", {.above = 0,
                                             .stored_as = "kilograms",
                                             .automatic = 0,
                                             .group = "Sale",
                                             .option = true,
                                             .otherwise = "as weighed"}),
      field<&Bicycle::price>("price", {.least = 0, .option = true}),
      field<&Bicycle::colour>("colour", {.option = true}),
      field<&Bicycle::maker>("maker", {.if_set = true, .option = true, .placeholder = "NAME"}));
}

// Gives the refusal or the help; an empty text: the program understands the command line.
std::string parse(std::vector<const char*> words, Bicycle& bicycle) {
  CLI::App app("A bicycle.", "ride");
  for (const char* group : {"Parts", "Sale"}) {
    app.option_defaults()->group(group);
    add_field_options(app, bicycle, group);
  }
  words.insert(words.begin(), "ride");
  const auto answer = understand(app, static_cast<int>(words.size()), words.data());
  return answer ? answer->text : "";
}

std::string refusal(std::vector<const char*> words) {
  Bicycle bicycle;
  return parse(std::move(words), bicycle);
}

TEST(FieldOptions, SetTheFields) {
  Bicycle bicycle;
  EXPECT_EQ(parse({"--gears", "08", "--spokes=36", "--dry-weight", "9.5", "--price", "0", "--colour", "green",
                   "--no-light", "--bell", "--maker", "a b"},
                  bicycle),
            "");
  EXPECT_EQ(bicycle.gears, 8);
  EXPECT_EQ(bicycle.spokes, 36);
  EXPECT_EQ(bicycle.weight, 9.5);
  EXPECT_EQ(bicycle.price, 0);
  EXPECT_EQ(bicycle.colour, Colour::kGreen);
  EXPECT_FALSE(bicycle.light);
  EXPECT_TRUE(bicycle.bell);
  EXPECT_EQ(bicycle.maker, "a b");
}

TEST(FieldOptions, MayHaveSeveralNames) {
  const auto parse_hub = [](std::vector<const char*> words, Bicycle& bicycle) {
    CLI::App app("A bicycle.", "ride");
    add_field_option<&Bicycle::gears>(app, bicycle, "--hub-gears,--gears");
    words.insert(words.begin(), "ride");
    const auto answer = understand(app, static_cast<int>(words.size()), words.data());
    return answer ? answer->text : "";
  };
  Bicycle bicycle;
  EXPECT_EQ(parse_hub({"--gears", "4"}, bicycle), "");
  EXPECT_EQ(bicycle.gears, 4);
  EXPECT_EQ(parse_hub({"--hub-gears", "5"}, bicycle), "");
  EXPECT_EQ(bicycle.gears, 5);
  EXPECT_THAT(parse_hub({"--gears", "31"}, bicycle), HasSubstr("ride: --hub-gears 31: expected a whole number"));
}

TEST(FieldOptions, TakeAutoWhereTheTableHasIt) {
  Bicycle bicycle{.spokes = 20, .weight = 3};
  EXPECT_EQ(parse({"--spokes", "auto", "--dry-weight", "auto"}, bicycle), "");
  EXPECT_EQ(bicycle.spokes, -1);
  EXPECT_EQ(bicycle.weight, 0);
  EXPECT_THAT(refusal({"--gears", "auto"}), HasSubstr("--gears auto: expected a whole number, 1 to 30"));
}

TEST(ProgramWords, StayAsTheyAre) {
  CLI::App app;
  std::vector<std::string> words;
  add_program(app, words, "");
  const char* const line[] = {"tool", "--", "sh", "-c", "[ -e a ]", "[a,b]", "--x=[1, 2]", "", "-v", "{c}"};
  ASSERT_FALSE(understand(app, std::size(line), line));
  EXPECT_EQ(words, (std::vector<std::string>{"sh", "-c", "[ -e a ]", "[a,b]", "--x=[1, 2]", "", "-v", "{c}"}));
}

// The number that "auto" stands for is no value of its own.
TEST(FieldOptions, RefuseWhatIsNotInRange) {
  EXPECT_THAT(refusal({"--gears", "31"}), HasSubstr("ride: --gears 31: expected a whole number, 1 to 30"));
  EXPECT_THAT(refusal({"--gears", "2.5"}), HasSubstr("--gears 2.5: expected a whole number"));
  EXPECT_THAT(refusal({"--gears", "0x4"}), HasSubstr("--gears 0x4: expected a whole number"));
  EXPECT_THAT(refusal({"--gears", "99999999999999999999"}), HasSubstr("expected a whole number"));
  EXPECT_THAT(refusal({"--spokes=-1"}), HasSubstr("--spokes -1: expected a whole number, 8 or more, or auto"));
  EXPECT_THAT(refusal({"--dry-weight", "0"}), HasSubstr("--dry-weight 0: expected a number, above 0, or auto"));
  EXPECT_THAT(refusal({"--dry-weight", "nan"}), HasSubstr("--dry-weight nan: expected a number"));
  EXPECT_THAT(refusal({"--price=-1"}), HasSubstr("--price -1: expected a number, 0 or more"));
  EXPECT_THAT(refusal({"--price", "off"}), HasSubstr("--price off: expected a number"));
  EXPECT_THAT(refusal({"--colour", "gren"}), HasSubstr("--colour gren: expected red or green; did you mean green?"));
  EXPECT_THAT(refusal({"--inner", "3"}), HasSubstr("unknown option --inner"));
}

TEST(FieldOptions, HelpSaysWhatTheTableSays) {
  Bicycle bicycle{.gears = 5};
  const std::string help = parse({"--help"}, bicycle);
  EXPECT_THAT(help, HasSubstr("Parts:\n  --gears N               of the hub (default: 5)\n"));
  EXPECT_THAT(help, HasSubstr("--spokes N              (default: auto)\n"));
  EXPECT_THAT(help, HasSubstr("--light, --no-light     in front\n"));
  EXPECT_THAT(help, HasSubstr("Sale:\n  --dry-weight X          (default: as weighed)\n"));
  EXPECT_THAT(help, HasSubstr("--colour red|green      (default: red)\n"));
  EXPECT_THAT(help, HasSubstr("--maker NAME\n"));
  EXPECT_THAT(help, Not(HasSubstr("inner")));
}

TEST(FieldOptions, ARecordHasTheValues) {
  EXPECT_EQ(describe::values_json(Bicycle{}).dump(),
            R"({"gears":3,"spokes":-1,"kilograms":0.0,"price":null,"colour":"red"})");
  EXPECT_EQ(
      describe::values_json(Bicycle{.price = 2, .light = false, .maker = "m", .inner = 8}).dump(),
      R"({"gears":3,"spokes":-1,"light":false,"inner":8,"kilograms":0.0,"price":2.0,"colour":"red","maker":"m"})");
}

TEST(FieldOptions, ChecksLookIntoOptionalValues) {
  EXPECT_TRUE(describe::check_ranges(Bicycle{}, "bicycle"));
  EXPECT_EQ(describe::check_ranges(Bicycle{.price = -2}, "bicycle").error().message(),
            "bicycle: price (0 or more) is -2");
  EXPECT_EQ(describe::check_ranges(Bicycle{.colour = Colour(2)}, "bicycle").error().message(),
            "bicycle: there is no colour 2");
}

}  // namespace xoe::tools::test
