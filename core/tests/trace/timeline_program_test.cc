// The program `xoe timeline`, started as people start it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/testing/places.h"
#include "core/testing/scratch.h"
#include "core/tests/trace/check.h"
#include "core/tests/trace/sample_run.h"

namespace xoe::trace {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Ended {
  int code = -1;
  std::string out;
  std::string error;
};

class TimelineProgramTest : public testing::Test {
 protected:
  Ended run(const std::vector<std::string>& arguments) const {
    const std::string program = built_command("xoe");
    const std::string out = scratch_.file("out");
    const std::string error = scratch_.file("error");
    std::vector<std::string> words = {program, "timeline"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open(out.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), 1);
      ::dup2(::open(error.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), 2);
      ::execv(program.c_str(), argv.data());
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), read_file(out), read_file(error)};
  }

  Scratch scratch_;
};

TEST_F(TimelineProgramTest, MergesAndSumsUp) {
  const auto paths = test::write_sample(scratch_.file("run"));
  ASSERT_EQ(paths.size(), 2U);
  const std::string out = scratch_.file("run.json");
  const Ended merged = run({"merge", out, paths[0], paths[1]});
  ASSERT_EQ(merged.code, 0) << merged.error;
  EXPECT_THAT(merged.error, IsEmpty());
  EXPECT_THAT(merged.out, HasSubstr("608 events"));
  EXPECT_THAT(merged.out, HasSubstr("-37.0 s"));
  test::expect_viewable(json::parse(read_file(out)));

  const Ended again = run({"merge", out, paths[0], paths[1]});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.error, HasSubstr("--overwrite"));
  const Ended as_json = run({"merge", "--overwrite", "--json", out, paths[0], paths[1]});
  ASSERT_EQ(as_json.code, 0) << as_json.error;
  EXPECT_EQ(json::parse(as_json.out)["files"][1]["clock_offset_ns"], -37'000'000'000);

  const Ended table = run({"summary", out});
  ASSERT_EQ(table.code, 0) << table.error;
  EXPECT_THAT(table.error, IsEmpty());
  for (const char* part : {"4 ranks", "compute", "engine: reduce", "negotiate (span)", "conv1.bias",
                           "Ranks that others", "hidden behind compute"}) {
    EXPECT_THAT(table.out, HasSubstr(part));
  }
  EXPECT_THAT(table.out, Not(HasSubstr("\033")));  // no terminal, no colours
  EXPECT_THAT(run({"summary", out, "--each-rank"}).out, HasSubstr("rank 3 (host b, pid "));

  const Ended facts = run({"summary", out, "--json", "--tensors", "2"});
  ASSERT_EQ(facts.code, 0) << facts.error;
  const json summary = json::parse(facts.out);
  EXPECT_EQ(summary["ranks"].size(), 4U);
  EXPECT_EQ(summary["negotiation"].size(), 2U);
  EXPECT_EQ(summary["stragglers"][0]["rank"], test::kSlowRank);
  EXPECT_GT(summary["overlap"]["hidden_share"], 0.1);
  EXPECT_THAT(summary["warnings"], IsEmpty());
}

TEST_F(TimelineProgramTest, WritesAPage) {
  const auto paths = test::write_sample(scratch_.file("run"));
  ASSERT_EQ(paths.size(), 2U);
  const Ended one = run({"view", paths[0]});
  ASSERT_EQ(one.code, 0) << one.error;
  EXPECT_THAT(one.error, IsEmpty());
  EXPECT_THAT(one.out, HasSubstr("run-a.html: 2 ranks, 208 events, "));
  EXPECT_THAT(read_file(scratch_.file("run-a.html")), HasSubstr("rank 1 on a"));

  const std::string page = scratch_.file("both.html");
  const Ended both = run({"view", paths[0], paths[1], "-o", page});
  ASSERT_EQ(both.code, 0) << both.error;
  EXPECT_THAT(both.out, HasSubstr("4 ranks, 416 events"));
  EXPECT_THAT(read_file(page), HasSubstr("rank 3 on b"));
  EXPECT_EQ(run({"view", paths[0], "-o", page}).code, 0);  // its own pages are replaced

  put_file(page, "a file of the user");
  const Ended refused = run({"view", paths[0], "-o", page});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.error, HasSubstr("--overwrite"));
  EXPECT_EQ(read_file(page), "a file of the user");

  const Ended few = run({"view", paths[0], "--events", "10"});
  EXPECT_EQ(few.code, 0);
  EXPECT_THAT(few.error, HasSubstr("198 of 208 events are not drawn"));
  for (const char* limit : {"0", "9223372036854775808"})
    EXPECT_EQ(run({"view", paths[0], "--events", limit}).code, 2) << limit;
  EXPECT_EQ(run({"view", paths[0], paths[0]}).code, 2);

  const std::string picture = scratch_.file("run.svg");
  const Ended drawn = run({"view", paths[0], paths[1], "--svg", picture, "--from", "0.02", "--milliseconds", "30"});
  EXPECT_EQ(drawn.code, 0) << drawn.error;
  EXPECT_THAT(drawn.out, HasSubstr("saved " + picture));
  EXPECT_THAT(read_file(picture), HasSubstr(">rank 3 on b<"));
  EXPECT_EQ(run({"view", paths[0], "--svg", picture, "--from", "1000"}).code, 2);
  EXPECT_EQ(run({"view", paths[0], "--from", "0.02"}).code, 2);
  EXPECT_EQ(run({"view", scratch_.file("none.json")}).code, 1);
  EXPECT_EQ(run({"view", paths[0], "-o", scratch_.file("no/such/p.html")}).code, 1);
}

TEST_F(TimelineProgramTest, AKilledRanksFileWorksWithAWarning) {
  const auto paths = test::write_sample(scratch_.file("run"));
  ASSERT_EQ(paths.size(), 2U);
  const std::string whole = read_file(paths[0]);
  put_file(paths[0], whole.substr(0, whole.size() - 150));
  const Ended ended = run({"summary", paths[0], "--json"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.error, HasSubstr("warning: the file has no proper end (byte "));
  EXPECT_EQ(json::parse(ended.out)["warnings"].size(), 1U);
}

TEST_F(TimelineProgramTest, EndsWithTheRightCode) {
  const auto paths = test::write_sample(scratch_.file("run"));
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({"merge"}).code, 2);
  EXPECT_EQ(run({"merge", scratch_.file("o.json")}).code, 2);
  EXPECT_EQ(run({"summary"}).code, 2);
  EXPECT_EQ(run({"summary", paths[0], "--tensors", "many"}).code, 2);
  EXPECT_EQ(run({"summary", scratch_.file("none")}).code, 1);
  EXPECT_EQ(run({"summary", scratch_.path()}).code, 1);
  put_file(scratch_.file("bad.json"), "{\"traceEvents\": oops");
  const Ended bad = run({"summary", "--json", scratch_.file("bad.json")});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.error, HasSubstr("bad.json: byte "));
  EXPECT_TRUE(json::parse(bad.out).contains("error"));
  EXPECT_EQ(run({"merge", scratch_.file("no/such/o.json"), paths[0]}).code, 1);

  const std::string copy = scratch_.file("copy.json");
  std::filesystem::copy_file(paths[0], copy);
  const Ended twice = run({"merge", scratch_.file("o.json"), paths[0], copy});
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.error, HasSubstr("--renumber"));
  EXPECT_EQ(run({"merge", "--renumber", scratch_.file("o.json"), paths[0], copy}).code, 0);

  const Ended help = run({"merge", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("xoe timeline merge run.json run-a.json run-b.json"));
}

TEST_F(TimelineProgramTest, HostileNamesDoNotReachTheTerminal) {
  put_file(scratch_.file("t.json"),
           R"([{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"\u001b[2J\u0007evil"}},
                     {"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"x"}])");
  const Ended ended = run({"summary", scratch_.file("t.json")});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, HasSubstr("?[2J?evil"));
}

}  // namespace
}  // namespace xoe::trace
