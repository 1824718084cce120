// Tests of the texts that agents and people send, and of what others see of them.
#include <nlohmann/json.hpp>

#include "core/base/utf8.h"
#include "pool/core/names.h"
#include "pool/server/json.h"
#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using ::testing::HasSubstr;

TEST(ReportText, IsMadePrintable) {
  HostReport report = report_of("a", 1);
  report.gpus[0].name = "Tesla\nT4";
  report.problem = std::string(5000, '\x01');
  const auto told = xoe::pool::report_of(json_of(report));
  ASSERT_TRUE(told) << told.error().message();
  EXPECT_EQ(told->gpus[0].name, "Tesla\uFFFDT4");
  EXPECT_THAT(told->problem, ::testing::StartsWith("\uFFFD\uFFFD"));
}

// The agent cuts what the server would refuse.
TEST(ReportText, IsLimited) {
  HostReport report = report_of("a", 1);
  report.without = std::string(5000, 'w');
  report.gpus[0].name = report.gpus[0].pci = std::string(5000, 'n');
  report.activity[0].processes = {{.user = std::string(5000, 'u')}};
  Json json = json_of(report);
  const auto told = xoe::pool::report_of(json);
  ASSERT_TRUE(told) << told.error().message();
  EXPECT_EQ(told->without.size(), 1024U);
  EXPECT_EQ(told->gpus[0].name.size(), 255U);
  EXPECT_EQ(told->gpus[0].pci.size(), 255U);
  EXPECT_EQ(told->activity[0].processes[0].user.size(), 255U);
  json.at("gpus").at(0).at("name") = std::string(256, 'n');
  EXPECT_THAT(xoe::pool::report_of(json).error().message(), HasSubstr("at most 255 bytes"));
}

// A user without an entry in passwd, one of a Windows domain.
TEST(Names, AreMadeOfWhatSystemsCallUsers) {
  for (const auto& [text, name] : {std::pair("uid 1000", "uid-1000"),
                                   {"CORP\\ann", "CORP-ann"},
                                   {"ann", "ann"},
                                   {"", "_"},
                                   {"-x", "_-x"},
                                   {"m\u00fcller", "m--ller"}}) {
    EXPECT_EQ(name_like(text, 64), name);
    EXPECT_TRUE(is_name(name_like(text, 64), 64)) << text;
  }
  EXPECT_EQ(name_like(std::string(70, 'a'), 64), std::string(64, 'a'));
}

// Characters that turn the direction of a text, or have no width, in a terminal and on the page.
TEST(ReportText, HidesNothing) {
  HostReport report = report_of("a", 1);
  report.gpus[0].name = "Tesla\u202eT4";
  report.activity[0].processes = {{.pid = 7, .user = "a\u200fnn b"}};
  report.without = report.problem = "a\u2028b";
  report.vms = {{.name = "two words", .users = {"a\u200bnn"}, .problem = "a\ufeffb"}, {.name = "py\u061cthon"}};
  const auto told = xoe::pool::report_of(json_of(report));
  ASSERT_TRUE(told) << told.error().message();
  EXPECT_EQ(told->gpus[0].name, "Tesla\uFFFDT4");
  EXPECT_EQ(told->activity[0].processes[0].user, "a\uFFFDnn b");
  EXPECT_EQ(told->without, "a\uFFFDb");
  // By its name the agent finds a VM again: it cannot have another one.
  ASSERT_EQ(told->vms.size(), 1U);
  EXPECT_EQ(told->vms[0].name, "two words");
  EXPECT_EQ(told->vms[0].users[0], "a\uFFFDnn");
  EXPECT_EQ(told->vms[0].problem, "a\uFFFDb");
  EXPECT_EQ(told->problem, "a\uFFFDb; VM py\uFFFDthon is left out: its name has hidden characters");
  report.problem.clear();
  report.vms = {{.name = ""}, {.name = std::string(256, 'v')}, {.name = std::string(255, 'v')}};
  for (const char* const hidden : {"\u00ad", "\u034f", "\u115f", "\u180e", "\u2064", "\u206a", "\u3164", "\uffa0",
                                   "\U0001d173", "\U000e0041", "\u200d", "\ufe0f"})
    report.vms.push_back({.name = fmt::format("a{}b", hidden)});
  const auto named = xoe::pool::report_of(json_of(report));
  ASSERT_EQ(named->vms.size(), 1U);
  EXPECT_EQ(named->vms[0].name, std::string(255, 'v'));
  EXPECT_THAT(named->problem, ::testing::StartsWith("VM  is left out: its name is empty; VM vvv"));
  EXPECT_THAT(named->problem, HasSubstr("v is left out: its name is longer than 255 bytes; VM a\uFFFDb is left out"));
  report.vms.clear();
  report.gpus[0].uuid = "GPU-\u202e1";
  EXPECT_THAT(xoe::pool::report_of(json_of(report)).error().message(), HasSubstr("is not that of a GPU"));
}

}  // namespace
}  // namespace xoe::pool::testing
