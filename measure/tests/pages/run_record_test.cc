#include "measure/pages/run_record.h"

#include <gtest/gtest.h>

#include <random>

#include "core/base/error.h"
#include "core/testing/scratch.h"
#include "measure/pages/report_page.h"

namespace xoe::pages {
namespace {

std::string page_of(const RunRecord& record, const std::string& folder) {
  const ReportedRun run = {.folder = folder, .record = record};
  return report_page({&run, 1});
}

class RunRecordTest : public testing::Test {
 protected:
  RunRecord read() {
    auto record = read_run(scratch_.path());
    EXPECT_TRUE(record) << record.error().message();
    return record ? std::move(*record) : RunRecord();
  }
  void metrics(std::string_view lines) { put_file(scratch_.file("metrics.jsonl"), lines); }
  Scratch scratch_;
};

TEST_F(RunRecordTest, ReadsCurvesSharesAndConfiguration) {
  metrics(R"({"event":"start","model":"mlp","ranks":2,"batch":32,"total_steps":30,"first_step":0,"sharded":false}
{"event":"report","step":10,"loss":2,"accuracy":0.1,"rate":0.01,"images_per_s":100,"rank_shares":[{"data":0.1,"compute":0.8,"peers":0.1,"optimizer":0},{"data":0,"compute":1,"peers":0,"optimizer":0}]}
{"event":"evaluation","step":10,"loss":2.5,"accuracy":0.2}
{"event":"report","step":30,"loss":1,"accuracy":0.5,"rate":0.02,"images_per_s":110,"rank_shares":[{"data":0.4,"compute":0.5,"peers":0.1,"optimizer":0},{"data":0,"compute":1,"peers":0,"optimizer":0}]}
{"event":"end","interrupted":false,"step":30,"seconds":12.5,"images_per_s":105,"images_per_s_uncertainty":2,"timeline":"elsewhere/trace.json"}
)");
  put_file(scratch_.file("trace.json"), "{}");
  put_file(
      scratch_.file("environment.json"),
      R"({"host":"a","variables":{"OMP_NUM_THREADS":"2"},"command":["xoe","train"],"options":{"seed":3,"ranks":9}})");
  put_file(
      scratch_.file("doctor.json"),
      R"({"findings":[{"state":"ok","group":"cpu","what":"fine"},{"state":"problem","group":"gpu","what":"<none>","fix":"buy"}]})");
  const RunRecord record = read();
  EXPECT_EQ(record.title, "mlp, 2 ranks x batch 32");
  EXPECT_TRUE(record.notes.empty());
  EXPECT_TRUE(record.ended);
  EXPECT_FALSE(record.interrupted);
  EXPECT_EQ(record.curves.loss.size(), 2U);
  EXPECT_EQ(record.curves.held_out_loss.at(0).y, 2.5);
  EXPECT_EQ(record.images_per_s, 105);
  ASSERT_EQ(record.rank_shares.size(), 2U);
  EXPECT_NEAR(record.rank_shares[0][0], 0.3, 1e-9);  // 10 steps of 0.1, 20 of 0.4
  EXPECT_NEAR(record.rank_shares[1][1], 1, 1e-9);
  EXPECT_EQ(record.timeline, scratch_.file("trace.json"));
  EXPECT_EQ(record.environment[1].second, "OMP_NUM_THREADS=2");
  EXPECT_EQ(record.environment[2].second, "xoe train");
  EXPECT_EQ(record.environment.size(), 3U);
  EXPECT_EQ(record.configuration.back(), (std::pair<std::string, std::string>("seed", "3")));
  const std::string html = page_of(record, "runs/a");
  for (const char* part :
       {"mlp, 2 ranks x batch 32", "runs/a: done", "105.0 ± 2.0", "30 of 30", "12.5 s", "<svg", "&lt;none&gt;",
        "1 check without fault", "title=\"waiting for data: 30.0 %\"", "held out", "learning rate"})
    EXPECT_TRUE(contains(html, part)) << part;
  EXPECT_FALSE(contains(html, "nan"));
}

TEST_F(RunRecordTest, SkipsBrokenLinesAndSaysSo) {
  metrics(
      "{\"event\":\"start\",\"model\":\"m\"}\nnot "
      "json\n[1]\n{\"step\":3}\n\n{\"event\":\"report\",\"step\":5,\"loss\":1}\r\n"
      "{\"event\":\"report\",\"step\":\"x\",\"loss\":1}\n{\"event\":\"report\",\"step\":6,\"loss\":{}}\n" +
      std::string("\xff\xfe\0\n", 4) + std::string(100'000, '[') + "\n{\"event\":\"report\",\"step\":7,\"lo");
  const RunRecord record = read();
  ASSERT_EQ(record.notes.size(), 2U);
  EXPECT_TRUE(contains(record.notes[0], "6 broken lines skipped, the first is line 2"));
  EXPECT_TRUE(contains(record.notes[1], "2 values left out"));
  EXPECT_EQ(record.curves.loss.size(), 1U);
  EXPECT_FALSE(record.ended);
  const std::string html = page_of(record, "r");
  EXPECT_TRUE(contains(html, "killed, or is still running"));
  EXPECT_TRUE(contains(html, "6 broken lines skipped"));
}

TEST_F(RunRecordTest, ValuesThatAreNotFiniteAreLeftOut) {
  metrics(
      R"({"event":"report","step":1,"loss":NaN,"accuracy":null,"rate":-Infinity,"images_per_s":1e300,"name":"NaN inf"}
{"event":"report","step":2,"loss":inf,"accuracy":0.5,"rate":0.1,"images_per_s":10}
{"event":"report","step":3,"loss":0.5,"accuracy":-nan,"rate":0,"images_per_s":0}
{"event":"evaluation","step":3,"loss":1e999,"accuracy":1}
)");
  const RunRecord record = read();
  EXPECT_EQ(record.curves.loss.size(), 1U);
  EXPECT_EQ(record.curves.accuracy.size(), 1U);
  EXPECT_EQ(record.curves.rate.size(), 2U);
  EXPECT_EQ(record.curves.images_per_s.size(), 2U);
  ASSERT_EQ(record.notes.size(), 2U);  // 1e999 is beyond JSON's numbers
  const std::string html = page_of(record, "r");
  EXPECT_FALSE(contains(html, "nan"));
  EXPECT_FALSE(contains(html, "points=\"inf"));
}

TEST_F(RunRecordTest, AResumedRunReplacesWhatItDoesAgain) {
  metrics(R"({"event":"start","model":"m","first_step":0}
{"event":"report","step":10,"loss":3}
{"event":"report","step":20,"loss":2}
{"event":"start","model":"m","first_step":10}
{"event":"report","step":20,"loss":1}
)");
  const RunRecord record = read();
  ASSERT_EQ(record.curves.loss.size(), 2U);
  EXPECT_EQ(record.curves.loss[1].y, 1);
  EXPECT_EQ(record.notes.at(0), "resumed after step 10");
}

TEST_F(RunRecordTest, SeveralRunsStandSideBySide) {
  metrics(R"({"event":"start","model":"mlp","ranks":2,"batch":32,"seed":3}
{"event":"report","step":10,"loss":2,"images_per_s":100,"rank_shares":[{"data":0.2,"compute":0.8},{"data":0,"compute":1}]}
{"event":"end","step":10,"images_per_s":100}
)");
  std::vector<ReportedRun> runs = {{.folder = "runs/<a>", .record = read()}};
  metrics(R"({"event":"start","model":"mlp","ranks":4,"batch":32,"seed":3}
{"event":"report","step":20,"loss":1,"images_per_s":200}
)");
  runs.push_back({.folder = "runs/b", .record = read()});
  const std::string html = report_page(runs);
  for (const char* part :
       {"2 runs side by side", "runs/&lt;a&gt;", "runs/b", "what differs", "<td>2<td>4", "<tr><th>seed<td>3",
        "title=\"waiting for data: 10.0 %\"", "var(--first)", "var(--second)", "no end"})
    EXPECT_TRUE(contains(html, part)) << part;
  EXPECT_FALSE(contains(html, "runs/<a>"));
  EXPECT_FALSE(contains(html, "held-out loss</"));
}

TEST_F(RunRecordTest, EmptyAndMissingFiles) {
  metrics("");
  const std::string html = page_of(read(), "r");
  EXPECT_TRUE(contains(html, "no report was written yet"));
  const auto none = read_run(scratch_.file("none"));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::kUnavailable);
  EXPECT_TRUE(contains(none.error().message(), "--run-dir"));
  put_file(scratch_.file("doctor.json"), "oops");
  EXPECT_TRUE(contains(read().notes.at(0), "doctor.json is no JSON object"));
}

TEST_F(RunRecordTest, AnyBytesGiveAPage) {
  const std::string whole = R"({"event":"start","model":"m","ranks":2,"batch":4,"first_step":0}
{"event":"report","step":10,"loss":3.5e0,"rate":-1,"rank_shares":[{"data":0.5,"compute":NaN},[]]}
{"event":"evaluation","step":10,"loss":1,"accuracy":"\u00e4"}
{"event":"end","interrupted":true,"step":10,"timeline":""}
)";
  metrics(whole);
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    std::string bytes = whole;
    for (unsigned i = 0; i < 1 + random() % 4; ++i) {
      const std::size_t at = random() % bytes.size();
      if (random() % 3 == 0) {
        bytes.erase(at, 1 + random() % 9);
      } else {
        bytes[at] = static_cast<char>(random());
      }
    }
    put_file(scratch_.file(round % 8 == 0   ? "environment.json"
                           : round % 8 == 1 ? "doctor.json"
                                            : "metrics.jsonl"),
             bytes);
    const std::string html = page_of(read(), "r");
    EXPECT_TRUE(html.ends_with("</html>\n"));
    EXPECT_FALSE(contains(html, "nan,"));
  }
}

TEST_F(RunRecordTest, DeepNestingIsSkipped) {
  constexpr std::size_t kDepth = 200'000;
  const std::string nested = std::string(kDepth, '[') + std::string(kDepth, ']');
  metrics("{\"event\":\"start\",\"model\":\"deep\",\"a\":" + nested +
          "}\n{\"event\":\"end\",\"interrupted\":" + nested + "}\n{\"event\":\"report\",\"step\":10,\"loss\":2}\n");
  const std::string object = "{\"a\":" + nested + "}";
  put_file(scratch_.file("environment.json"), object);
  put_file(scratch_.file("doctor.json"), object);
  const RunRecord record = read();
  EXPECT_EQ(record.curves.loss.size(), 1U);
  EXPECT_FALSE(record.ended);
  ASSERT_EQ(record.notes.size(), 3U);
  EXPECT_TRUE(contains(record.notes[0], "2 broken lines skipped, the first is line 1"));
  EXPECT_TRUE(contains(record.notes[1], "environment.json is no JSON object, or nested too deeply"));
}

TEST_F(RunRecordTest, ModerateNestingIsShown) {
  metrics(R"({"event":"start","a":[[[[[[1]]]]]]})");
  const RunRecord record = read();
  EXPECT_TRUE(record.notes.empty());
  EXPECT_EQ(record.configuration.at(0).second, "[[[[[1]]]]]");
}

TEST_F(RunRecordTest, WhatIsLeftOutIsTold) {
  std::string start = R"({"event":"start","model":"m")", shares = "{}", findings;
  for (int i = 0; i < 300; ++i) start += fmt::format(R"(,"fact{}":{})", i, i);
  for (int i = 1; i < 5000; ++i) shares += ",{}";
  for (int i = 0; i < 1500; ++i)
    findings += fmt::format(R"({{"state":"{}","what":"finding {}"}},)", i == 1400 ? "problem" : "note", i);
  findings.pop_back();
  metrics(start + "}\n" + R"({"event":"report","step":1,"rank_shares":[)" + shares + "]}\n");
  put_file(scratch_.file("doctor.json"), R"({"findings":[)" + findings + "]}");
  const RunRecord record = read();
  EXPECT_EQ(record.configuration.size(), 201U);
  EXPECT_EQ(record.configuration.back().second, "101 of 301 members, which are more than a table shows");
  EXPECT_EQ(record.rank_shares.size(), 4096U);
  EXPECT_EQ(record.doctor.size(), 1000U);
  EXPECT_EQ(record.doctor[0].what, "finding 1400");
  ASSERT_EQ(record.notes.size(), 2U);
  EXPECT_TRUE(contains(record.notes[0], "of 904 of 5000 ranks were left out")) << record.notes[0];
  EXPECT_TRUE(contains(record.notes[1], "500 of 1500 findings were left out")) << record.notes[1];
  const std::string html = page_of(record, "r");
  for (const char* part : {"101 of 301 members", "904 of 5000 ranks", "500 of 1500 findings"})
    EXPECT_TRUE(contains(html, part)) << part;
}

TEST_F(RunRecordTest, OfALongFileTheNewestLinesAreRead) {
  std::string lines = R"({"event":"start","model":"m"})"
                      "\n";
  for (int i = 1; i <= 100; ++i) lines += fmt::format(R"({{"event":"report","step":{},"loss":{}}})", i, i) + "\n";
  metrics(lines + R"({"event":"end","step":100})"
                  "\n");
  const RunRecord record = read_run(scratch_.path(), 1024).value();
  EXPECT_EQ(record.title, "m");
  EXPECT_TRUE(record.ended);
  ASSERT_FALSE(record.curves.loss.empty());
  EXPECT_EQ(record.curves.loss.back().x, 100);
  EXPECT_GT(record.curves.loss.front().x, 60);
  EXPECT_EQ(record.curves.loss.size(), 101 - static_cast<std::size_t>(record.curves.loss.front().x)) << "whole lines";
  ASSERT_EQ(record.notes.size(), 1U);
  EXPECT_TRUE(contains(record.notes[0], "metrics.jsonl: of 3.8 KiB, the first line and the newest "))
      << record.notes[0];
  EXPECT_TRUE(read_run(scratch_.path(), lines.size() + 100).value().notes.empty());
}

TEST_F(RunRecordTest, ReadsNoFileOutsideOfTheFolder) {
  const Scratch other;
  put_file(other.file("secret.json"), "[]");
  metrics("{\"event\":\"end\",\"timeline\":\"" + other.file("secret.json") + "\"}\n");
  EXPECT_EQ(read().timeline, "");
  put_file(scratch_.file("timeline-b.json"), "[]");
  put_file(scratch_.file("timeline-a.json"), "[]");
  EXPECT_EQ(read().timeline, scratch_.file("timeline-a.json"));
}

}  // namespace
}  // namespace xoe::pages
