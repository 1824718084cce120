#include "core/describe/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/describe/option_list.h"

namespace xoe::describe::test {

using ::testing::HasSubstr;

enum class Shade : std::uint8_t { kLight, kDark };
std::string_view shade_name(Shade shade) {
  return shade == Shade::kLight ? "light" : shade == Shade::kDark ? "dark" : std::string_view();
}

}  // namespace xoe::describe::test

template <>
struct xoe::describe::TextForm<xoe::describe::test::Shade>
    : xoe::describe::EnumForm<xoe::describe::test::Shade, xoe::describe::test::shade_name> {};

namespace xoe::describe::test {

struct Size {
  int height = 4;
};

struct Lamp {
  std::string name = {};
  bool on = true;
  int watts = 10;
  int timer = -1;
  std::uint64_t store = 0;
  double share = 0.5;
  Shade shade = Shade::kLight;
  std::optional<Shade> cover = {};
  std::optional<int> dimmer = {};
  Size size = {};
};
constexpr auto fields_of(const Lamp*) {
  return std::tuple(field<&Lamp::name>("name", {.what = "on its foot", .group = "Outside"}), field<&Lamp::on>("on"),
                    field<&Lamp::watts>("watts", {.least = 1, .most = 60, .group = "Inside"}),
                    field<&Lamp::timer>("timer", {.least = 0, .automatic = -1}),
                    field<&Lamp::store>("store", {.is_bytes = true}),
                    field<&Lamp::share>("share", {.above = 0, .below = 1}), field<&Lamp::shade>("shade"),
                    field<&Lamp::cover>("cover"), field<&Lamp::dimmer>("dimmer"),
                    field<&Lamp::size, &Size::height>("height", {.least = 1}));
}

std::string wrong_with(std::string_view key, std::string_view value) {
  Lamp lamp;
  const Status set = set_by_name(lamp, "lamps", key, value);
  return set ? "" : set.error().message();
}

TEST(Texts, AreSetByNameAndWrittenAgain) {
  Lamp lamp;
  const std::pair<const char*, const char*> values[] = {
      {"name", "a b"},   {"on", "false"},   {"watts", "60"},   {"timer", "auto"}, {"store", "2KiB"},
      {"share", "0.25"}, {"shade", "dark"}, {"cover", "dark"}, {"dimmer", "3"},   {"height", "9"}};
  for (const auto& [key, value] : values) ASSERT_TRUE(set_by_name(lamp, "lamps", key, value)) << key;
  EXPECT_EQ(text_of(lamp),
            "name=a b\non=0\nwatts=60\ntimer=auto\nstore=2048\nshare=0.25\nshade=dark\ncover=dark\ndimmer=3\n"
            "height=9\n");
  ASSERT_TRUE(set_by_name(lamp, "lamps", "cover", "auto"));
  ASSERT_TRUE(set_by_name(lamp, "lamps", "dimmer", "off"));
  EXPECT_THAT(text_of(lamp), HasSubstr("cover=auto\ndimmer=off\n"));
}

TEST(Texts, ThatAreWrongAreToldWithWhatIsRight) {
  EXPECT_EQ(wrong_with("watts", "many"), "lamps: option watts is 'many'; it may be a whole number, 1 to 60");
  EXPECT_EQ(wrong_with("timer", "x"), "lamps: option timer is 'x'; it may be a whole number, 0 or more, or auto");
  EXPECT_EQ(wrong_with("share", ""), "lamps: option share is ''; it may be a number, above 0 to below 1");
  EXPECT_EQ(wrong_with("on", "yes"), "lamps: option on is 'yes'; it may be 0, 1, false or true");
  EXPECT_EQ(wrong_with("shade", "dim"), "lamps: option shade is 'dim'; it may be light, dark");
  EXPECT_EQ(wrong_with("cover", "off"), "lamps: option cover is 'off'; it may be auto, or light, dark");
  EXPECT_EQ(wrong_with("watts", "99999999999"),
            "lamps: option watts is '99999999999'; it may be a whole number, 1 to 60");
  EXPECT_THAT(wrong_with("store", "-1"), HasSubstr("it may be bytes, as in 1048576, 512K or 2GiB"));
  EXPECT_THAT(wrong_with("volts", "1"), HasSubstr("lamps: there is no option 'volts'; there are name, on, watts, "));
  EXPECT_THAT(wrong_with(std::string(1000, 'x'), "1"), HasSubstr("'" + std::string(100, 'x') + "'"));
}

TEST(Ranges, AreChecked) {
  const auto wrong = [](const Lamp& lamp) {
    const Status checked = check_ranges(lamp, "lamps");
    return checked ? "" : checked.error().message();
  };
  EXPECT_EQ(wrong({}), "");
  EXPECT_EQ(wrong({.watts = 61}), "lamps: watts (1 to 60) is 61");
  EXPECT_EQ(wrong({.timer = -2}), "lamps: timer (0 or more, or auto) is -2");
  EXPECT_EQ(wrong({.share = 1}), "lamps: share (above 0 to below 1) is 1");
  EXPECT_EQ(wrong({.share = std::numeric_limits<double>::quiet_NaN()}), "lamps: share (above 0 to below 1) is nan");
  EXPECT_EQ(wrong({.shade = Shade(7)}), "lamps: there is no shade 7");
  EXPECT_EQ(wrong({.size = {0}}), "lamps: height (1 or more) is 0");
}

TEST(Options, AreListedWithDefaultsAndChoices) {
  const auto list = options_json<Lamp>();
  ASSERT_EQ(list.size(), 10U);
  EXPECT_EQ(
      list.at(0).dump(),
      R"({"name":"name","group":"Outside","default":"","choices":"any text","is_flag":false,"what":"on its foot"})");
  EXPECT_EQ(list.at(1).at("is_flag"), true);
  EXPECT_EQ(list.at(1).at("group"), "Outside");
  EXPECT_EQ(list.at(3).at("default"), "auto");
  EXPECT_EQ(list.at(3).at("group"), "Inside");
}

}  // namespace xoe::describe::test
