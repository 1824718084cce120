#include "measure/pages/bars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

namespace xoe::pages {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<BarGroup> kGroups = {
    {.title = "us",
     .bars = {{.name = "ours", .value = 1, .text = "1", .marked = true},
              {.name = "peer", .value = 4, .text = "4 (4x)"}}},
    {.title = "images/s", .bars = {{.name = "alone", .value = 7000, .text = "7000"}}}};

double length_of(const std::string& svg, const std::string& color, std::size_t number) {
  const std::regex bar("width=\"([0-9.]+)\" height=\"16.0\" fill=\"" + color + "\"");
  auto found = std::sregex_iterator(svg.begin(), svg.end(), bar);
  std::advance(found, number);
  return std::stod((*found)[1]);
}

TEST(Bars, EachGroupHasAScaleOfItsOwn) {
  const BarColors colors;
  const std::string svg = bars_svg("Times", kGroups);
  for (const char* text : {">Times<", ">us<", ">ours<", ">4 (4x)<", ">images/s<", ">7000<"})
    EXPECT_THAT(svg, HasSubstr(text));
  const double longest = length_of(svg, std::string(colors.others), 0);
  EXPECT_NEAR(length_of(svg, std::string(colors.marked), 0), longest / 4, 0.1);
  EXPECT_NEAR(length_of(svg, std::string(colors.others), 1), longest, 0.1);
}

TEST(Bars, NoTextIsCutByTheEdge) {
  const std::vector<BarGroup> groups = {
      {.title = "", .bars = {{.name = std::string(500, 'n'), .value = 1, .text = "12345678 (1.23e+04x)"}}}};
  const std::string svg = bars_svg("", groups);
  EXPECT_THAT(svg, HasSubstr("nnn…<"));
  EXPECT_GT(length_of(svg, std::string(BarColors().others), 0), 100);
  const std::regex text("<text x=\"([0-9.]+)\"[^>]*>([^<]*)<");
  for (auto found = std::sregex_iterator(svg.begin(), svg.end(), text); found != std::sregex_iterator(); ++found)
    EXPECT_LE(std::stod((*found)[1]) + kBarsLetter * static_cast<double>((*found)[2].length()), kBarsWidth);
}

TEST(Bars, APageGivesTheColours) {
  const std::string svg = bars_svg("", kGroups, kPageBarColors);
  EXPECT_THAT(svg, HasSubstr("var(--first)"));
  EXPECT_THAT(svg, Not(HasSubstr("#")));
}

}  // namespace
}  // namespace xoe::pages
