// Jobs alone and together.
#include "measure/cli/isolation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace xoe::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BenchIsolation, PartsOfTheCpusHaveNoneInCommon) {
  const auto parts = part_cpus({0, 1, 4, 5, 9}, 2);
  ASSERT_TRUE(parts);
  EXPECT_THAT(*parts, ElementsAre(ElementsAre(0, 1), ElementsAre(4, 5)));
  const auto refused = part_cpus({3}, 2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "2 jobs need as many CPUs, and this process may use 1");
}

TEST(BenchIsolation, ReadsAndNamesCpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : {0, 1, 2, 7, 9, 10}) CPU_SET(cpu, &set);
  EXPECT_THAT(cpus_of(set), ElementsAre(0, 1, 2, 7, 9, 10));
  EXPECT_EQ(ranges_text(cpus_of(set)), "0-2,7,9-10");
  EXPECT_EQ(ranges_text({}), "");
}

Isolation two_jobs() {
  return {.model = "resnet50",
          .ranks = 2,
          .jobs = {{.place = "CPUs 0-1", .alone = {100, 102, 98, 101, 99}, .together = {90, 91, 89, 90, 90}},
                   {.place = "CPUs 2-3", .alone = {100, 102, 98, 101, 99}, .together = {101, 99, 100, 98, 102}}}};
}

TEST(BenchIsolation, InterferenceIsTheShareThatIsLost) {
  const IsolationReport report = report_isolation(two_jobs(), 1);
  EXPECT_NEAR(report.jobs[0].interference, 0.1, 1e-9);
  EXPECT_GT(report.jobs[0].interval.low, 0.05);
  EXPECT_LT(report.jobs[1].interval.low, 0);
  EXPECT_GT(report.jobs[1].interval.high, 0);
  EXPECT_NEAR(report.alone, 200, 1e-9);
  EXPECT_NEAR(report.interference, 0.05, 1e-9);
  EXPECT_THAT(report.notes, ::testing::IsEmpty());
}

TEST(BenchIsolation, OutputsNameJobsRoundsAndEmulation) {
  Isolation isolation = two_jobs();
  isolation.emulated_images_per_s = 10;
  isolation.jobs[0].alone = isolation.jobs[0].together = {100};
  const IsolationReport report = report_isolation(isolation, 1);
  EXPECT_THAT(report.notes, Contains(HasSubstr("--rounds 5")));
  EXPECT_THAT(isolation_text(isolation, report), HasSubstr("2 jobs of resnet50, 2 ranks each"));
  EXPECT_THAT(isolation_text(isolation, report), HasSubstr("1 on CPUs 2-3"));
  EXPECT_THAT(isolation_text(isolation, report), HasSubstr("EMULATION"));
  EXPECT_EQ(to_json(isolation, report)["jobs"][1]["place"], "CPUs 2-3");
  const std::string page = isolation_page(isolation, report);
  for (const char* part : {"<svg", "EMULATION", "together", "1 on CPUs 2-3"}) EXPECT_THAT(page, HasSubstr(part));
}

}  // namespace
}  // namespace xoe::bench
