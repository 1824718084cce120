#include "measure/pages/page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/testing/scratch.h"
#include "measure/pages/report_page.h"
#include "measure/pages/result_page.h"

namespace xoe::pages {
namespace {

using nlohmann::json;

// The JSON of a block of a page, as a browser finds it.
std::string block(const std::string& html, const std::string& id) {
  const std::string start = "id=\"" + id + "\">";
  const auto at = html.find(start);
  if (at == std::string::npos) return {};
  const auto end = html.find("</script", at);
  return html.substr(at + start.size(), end - at - start.size());
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Page, EscapesText) {
  EXPECT_EQ(html_text("<a b=\"c\" d='e'>&amp;"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;");
  EXPECT_EQ(html_text("a\x01"
                      "b\x1b[2J\xff\n"),
            "a\uFFFDb\uFFFD[2J\uFFFD\uFFFD");
  EXPECT_EQ(html_text("größe µs \xc2\x85"), "größe µs \uFFFD");
  EXPECT_EQ(script_json(R"(["</script>","<!--","a&b"])"), R"(["\u003c/script\u003e","\u003c!--","a\u0026b"])");
}

TEST(Page, PutsForeignTextOnlyWhereItBelongs) {
  const std::string html = html_of({.title = "{{body}}</title>",
                                    .body = "{{scripts}}",
                                    .data = {{"d", "\"</script>{{style}}\""}},
                                    .scripts = {"run();"}});
  EXPECT_TRUE(contains(html, "<title>{{body}}&lt;/title&gt;</title>"));
  EXPECT_TRUE(contains(html, "<main>\n{{scripts}}</main>"));
  EXPECT_EQ(json::parse(block(html, "d")), "</script>{{style}}");
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_TRUE(html.ends_with("</html>\n"));
}

TEST(Page, NamesOfATraceReachItAsData) {
  const Scratch scratch;
  const std::string path = scratch.file("t.json");
  put_file(path, R"([{"ph":"M","name":"process_name","pid":1,"args":{"name":"<script>alert(1)</script>"}},
{"ph":"M","name":"process_labels","pid":1,"args":{"host":"<img src=x onerror=alert(2)>\"'"}},
{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"</script><b>"}},
{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a</script><script>alert(3)//\u0000\u001b\u2028\"'\\","args":{"note":"<!--<script>"}},
{"ph":"b","pid":1,"ts":1,"cat":"negotiate","id":1,"name":"</td></script>&lt;\ud800"},
{"ph":"e","pid":1,"ts":2,"cat":"negotiate","id":1}])");
  auto timeline = read_timeline(path);
  ASSERT_FALSE(timeline);  // half a surrogate is no JSON
  std::string text = read_file(path);
  text.replace(text.find("\\ud800"), 6, "&amp;");
  put_file(path, text);
  timeline = read_timeline(path);
  ASSERT_TRUE(timeline) << timeline.error().message();
  const std::string html = timeline_page(*timeline, "</title><script>");
  EXPECT_EQ(count(html, "<script"), 2U);  // the data, and our own
  EXPECT_EQ(count(html, "</script"), 2U);
  EXPECT_EQ(count(html, "<img"), 0U);
  EXPECT_EQ(count(html, "<!--"), 0U);
  EXPECT_EQ(html.find('\0'), std::string::npos);
  EXPECT_EQ(html.find('\x1b'), std::string::npos);
  const json data = json::parse(block(html, "timeline-data"));
  EXPECT_EQ(data["view"]["lanes"][0]["title"], "</script><b>");
  EXPECT_EQ(data["view"]["texts"][1], "a</script><script>alert(3)//\uFFFD\uFFFD\uFFFD\"'\\");
  EXPECT_EQ(data["view"]["texts"][2], "<!--<script>");
  EXPECT_EQ(data["ranks"][0]["title"], "rank 1 on <img src=x onerror=alert(2)>\"'");
}

TEST(Page, LoadsNothingFromElsewhere) {
  const Scratch scratch;
  put_file(scratch.file("t.json"), R"([{"ph":"X","pid":0,"tid":1,"ts":1,"dur":1,"name":"x"}])");
  put_file(scratch.file("metrics.jsonl"), R"({"event":"report","step":1,"loss":1.5})");
  const auto timeline = read_timeline(scratch.file("t.json"));
  const auto record = read_run(scratch.path());
  ASSERT_TRUE(timeline);
  ASSERT_TRUE(record);
  const ReportedRun run = {.folder = "r", .record = *record, .timeline = *timeline};
  const std::vector<ReportedRun> twice(2, run);
  for (const std::string& html : {timeline_page(*timeline, "t"), report_page({&run, 1}), report_page(twice)}) {
    EXPECT_TRUE(contains(html, "default-src 'none'"));
    EXPECT_EQ(count(html, " src="), 0U);
    EXPECT_EQ(count(html, "@import"), 0U);
    EXPECT_EQ(count(html, "url("), 0U);
    // Only names of XML, which are never fetched.
    EXPECT_EQ(count(html, "://"), count(html, "http://www.w3.org/2000/svg"));
  }
}

TEST(Page, SharesOfTimeStandInIt) {
  const Scratch scratch;
  put_file(scratch.file("t.json"), R"([{"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"compute"}},
{"ph":"M","name":"thread_name","pid":0,"tid":2,"args":{"name":"engine: reduce"}},
{"ph":"X","pid":0,"tid":1,"ts":0,"dur":50,"name":"forward"},{"ph":"X","pid":0,"tid":2,"ts":40,"dur":35,"name":"allreduce"},
{"ph":"X","pid":0,"tid":3,"ts":90,"dur":10,"name":"other"}])");
  const auto timeline = read_timeline(scratch.file("t.json"));
  ASSERT_TRUE(timeline);
  const std::string html = timeline_page(*timeline, "t");
  EXPECT_TRUE(contains(html, "title=\"computing: 50.0 %\""));
  EXPECT_TRUE(contains(html, "title=\"communicating: 25.0 %\""));
  EXPECT_TRUE(contains(html, "title=\"the rest: 25.0 %\""));
  EXPECT_FALSE(contains(html, "title=\"waiting for data"));
}

TEST(Page, ReplacesOnlyItsOwnKind) {
  const Scratch scratch;
  const std::string path = scratch.file("p.html");
  EXPECT_EQ(page_path("a/run.json"), "a/run.html");
  EXPECT_EQ(page_path("a/run"), "a/run.html");
  const std::string page = html_of({.title = "one", .body = "", .data = {}, .scripts = {}});
  EXPECT_TRUE(write_page(path, page, false));
  EXPECT_TRUE(write_page(path, page, false));
  put_file(path, "<p>mine");
  const Status refused = write_page(path, page, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(refused.error().message(), "--overwrite"));
  EXPECT_EQ(read_file(path), "<p>mine");
  EXPECT_TRUE(write_page(path, page, true));
  EXPECT_EQ(read_file(path), page);
}

}  // namespace
}  // namespace xoe::pages
