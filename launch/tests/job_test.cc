// The ranks' environment, and how their output arrives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/testing/scratch.h"
#include "launch/plan/cores.h"
#include "launch/tests/launched.h"

namespace xoe::launch {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

// A folder of one test.
class Job : public testing::Test {
 protected:
  const Scratch scratch_;
  const std::string& folder_ = scratch_.path();
};

TEST_F(Job, RanksKnowTheirPlace) {
  const auto ran = run_script(
      3, "echo $XOE_RANK/$XOE_SIZE $XOE_LOCAL_RANK/$XOE_LOCAL_SIZE $XOE_CROSS_RANK/$XOE_CROSS_SIZE ${XOE_STORE:0:10}");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[0] 0/3 0/3 0/1 unix:@xoe-", "[1] 1/3 1/3 0/1 unix:@xoe-",
                                                      "[2] 2/3 2/3 0/1 unix:@xoe-"));
}

TEST_F(Job, TheSecretIsInNoArgument) {
  // The search itself must not have the secret either: it would find itself.
  const auto ran =
      run_script(2,
                 "for f in /proc/[0-9]*/cmdline; do c=$(tr -d '\\0' < $f); "
                 "[[ $c == *$XOE_SECRET* ]] && exit 1; done 2>/dev/null; [ ${#XOE_SECRET} = 32 ] && echo $XOE_JOB");
  const auto lines = lines_of(ran.out);
  ASSERT_EQ(lines.size(), 2U) << ran.err;
  EXPECT_EQ(lines[0].substr(4), lines[1].substr(4));
  EXPECT_NE(run_script(1, "echo $XOE_JOB").out, run_script(1, "echo $XOE_JOB").out);
}

TEST_F(Job, ShowsOnlyTheRanksThatAreAskedFor) {
  const auto ran = run_script(3, "echo out; echo err >&2", {"--only-rank", "1", "--output-dir", folder_});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "[1] out\n");
  EXPECT_EQ(ran.err, "[1] err\n");
  for (const int rank : {0, 1, 2}) {
    std::ifstream file(fmt::format("{}/rank.{}/stdout", folder_, rank));
    std::string line;
    EXPECT_TRUE(std::getline(file, line)) << rank;
    EXPECT_EQ(line, "out");
  }
  const auto silent = run_script(2, "echo out", {"--only-rank", "none"});
  EXPECT_EQ(silent.code, 0);
  EXPECT_EQ(silent.out + silent.err, "");
  const auto refused = run_script(2, "echo out", {"--only-rank", "0,2"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--only-rank 2: there are 2 ranks"));
}

TEST_F(Job, TellsWhatARankWroteThatFailedUnseen) {
  const auto ran =
      run_script(2, "echo shown; [ $XOE_RANK = 1 ] || exec sleep 100; seq 50 >&2; echo no such layer >&2; exit 3",
                 {"--only-rank", "0"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_EQ(ran.out, "[0] shown\n");
  EXPECT_THAT(ran.err, HasSubstr("the last lines of that rank, which --only-rank has not shown:\nxoe run:   32\n"));
  EXPECT_THAT(ran.err, HasSubstr("xoe run:   50\nxoe run:   no such layer\n"));
}

TEST_F(Job, RunsAModuleOfPython) {
  std::ofstream(folder_ + "/places.py") << "import os, sys\nprint(os.environ['XOE_RANK'], *sys.argv[1:])\n";
  Launched job({"run", "-np", "2", "--env", "PYTHONPATH=" + folder_, "-m", "places", "-np", "9"});
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[0] 0 -np 9", "[1] 1 -np 9"));
  ::setenv("XOE_PACKAGE_PYTHON", "/bin/echo", 1);
  EXPECT_EQ(Launched({"run", "-np", "1", "-m", "places", "x"}).wait().out, "[0] -m places x\n");
  ::unsetenv("XOE_PACKAGE_PYTHON");
}

TEST_F(Job, TakesTorchrunsCommandLine) {
  const std::string script = folder_ + "/train.py";
  std::ofstream(script) << "import os, sys\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'], *sys.argv[1:])\n";
  Launched job({"torchrun", "--standalone", "--nproc_per_node=3", "--rdzv-backend=c10d", "--local-ranks-filter", "0,2",
                script, "--nproc_per_node", "7"});
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[0] 0 3 --nproc_per_node 7", "[2] 2 3 --nproc_per_node 7"));
  EXPECT_THAT(ran.err, HasSubstr("torchrun's --rdzv-backend has no meaning here"));
  EXPECT_THAT(Launched({"torchrun", "--help"}).wait().out, HasSubstr("--nproc-per-node"));
}

TEST_F(Job, PassesVariablesOn) {
  const auto ran = run_script(1, "echo \"$A|$B|$OMP_NUM_THREADS\"",
                              {"--env", "A=x y", "--env", "B=1=2", "--env", "OMP_NUM_THREADS=7"});
  EXPECT_EQ(ran.out, "[0] x y|1=2|7\n");
  EXPECT_THAT(run_script(1, "echo $OMP_NUM_THREADS,$PYTHONUNBUFFERED").out,
              testing::MatchesRegex("\\[0\\] [0-9]+,1\n"));
}

TEST_F(Job, ArgumentsAfterTheProgramAreTheProgramsOwn) {
  Launched job({"run", "-np", "1", "--", "printf", "%s.", "-np", "3", "--help", "--", ""});
  EXPECT_EQ(job.wait().out, "[0] -np.3.--help.--..\n");
}

TEST_F(Job, TagsEachStream) {
  const auto ran = run_script(2, "echo out; echo err >&2");
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[0] out", "[1] out"));
  EXPECT_THAT(lines_of(ran.err), UnorderedElementsAre("[0] err", "[1] err"));
  const auto plain = run_script(2, "echo out", {"--no-tag-output"});
  EXPECT_EQ(plain.out, "out\nout\n");
}

TEST_F(Job, ALineWithoutItsEndArrivesAtTheEnd) {
  EXPECT_EQ(run_script(1, "printf 'a\\nb'").out, "[0] a\n[0] b\n");
  EXPECT_EQ(run_script(1, "printf '\\n\\nx\\n'").out, "[0] \n[0] \n[0] x\n");
}

TEST_F(Job, LinesStayWholeUnderManyWriters) {
  // Each line is written in two pieces, so that lines of several ranks are half-written at the same time.
  const auto ran =
      run_script(4, "for i in {1..2000}; do printf \"rank $XOE_RANK line \"; echo \"$i $((i * XOE_RANK)).\"; done");
  std::map<int, int> next;
  for (const std::string& line : lines_of(ran.out)) {
    int tag = -1;
    int rank = -1;
    int number = 0;
    int product = -1;
    char end = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "[%d] rank %d line %d %d%c", &tag, &rank, &number, &product, &end), 5) << line;
    ASSERT_EQ(tag, rank);
    ASSERT_EQ(number, ++next[rank]) << line;
    ASSERT_EQ(product, number * rank);
    ASSERT_EQ(end, '.');
  }
  EXPECT_EQ(next, (std::map<int, int>{{0, 2000}, {1, 2000}, {2, 2000}, {3, 2000}}));
}

TEST_F(Job, FastOutputIsComplete) {
  const auto ran = run_script(2, "seq 200000");
  EXPECT_EQ(lines_of(ran.out).size(), 400000U);
  const auto wide = run_script(1, "head -c 3000000 /dev/zero | tr '\\0' x");
  EXPECT_EQ(std::ranges::count(wide.out, 'x'), 3000000);
}

// All ranks end long before their output is taken: more than the launcher holds back, so much of it is still in pipes.
TEST_F(Job, ASlowReaderGetsAllAndCostsNothing) {
  const std::string job = xoe_path() + " run -np 16 bash -c \"head -c 120000 /dev/zero | tr '\\\\0' x\"";
  const std::string script = "TIMEFORMAT='%U %S'; exec 2> " + folder_ + "/cpu; time " + job +
                             " | (sleep 4; tr -cd x | wc -c > " + folder_ + "/count)";
  std::ofstream(folder_ + "/script") << script << '\n';
  ASSERT_EQ(std::system(("bash " + folder_ + "/script").c_str()), 0);
  EXPECT_EQ(file_text(folder_ + "/count"), "1920000\n");
  double user = -1;
  double system = -1;
  const std::string cpu = file_text(folder_ + "/cpu");
  ASSERT_EQ(std::sscanf(cpu.c_str(), "%lf %lf", &user, &system), 2) << cpu;
  EXPECT_LT(user + system, 1.0) << "seconds of processor time; it only waits";
}

TEST_F(Job, OutputDirKeepsTheBytes) {
  const std::string logs = folder_ + "/a/b";
  const auto ran = run_script(2, "printf \"out $XOE_RANK\"; echo err >&2", {"--output-dir", logs});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(file_text(logs + "/rank.0/stdout"), "out 0");
  EXPECT_EQ(file_text(logs + "/rank.1/stdout"), "out 1");
  EXPECT_EQ(file_text(logs + "/rank.1/stderr"), "err\n");
  EXPECT_THAT(ran.out, HasSubstr("[1] out 1\n"));
}

TEST_F(Job, AFullDiskIsSaid) {
  std::filesystem::create_directories(folder_ + "/rank.0");
  std::filesystem::create_symlink("/dev/full", folder_ + "/rank.0/stdout");
  const auto ran = run_script(1, "echo hello", {"--output-dir", folder_});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "[0] hello\n");
  EXPECT_THAT(ran.err, HasSubstr("rank.0/stdout is incomplete: No space left"));
}

TEST_F(Job, BindsToCores) {
  const auto allowed = allowed_cpus().value();
  const auto cores = read_cores(allowed, "/sys/devices/system/cpu").value();
  const int ranks = static_cast<int>(std::min<std::size_t>(cores.size(), 64));
  // One rank a core on hosts of up to 64, so each list is one core's.
  const auto ran =
      run_script(ranks, "sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status", {"--bind-to", "core"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  std::set<int> seen;
  int lists = 0;
  for (const std::string& line : lines_of(ran.out)) {
    const std::string text = line.substr(line.find(' ') + 1);
    const auto cpus = parse_cpu_list(text).value();
    ++lists;
    for (const int cpu : cpus) EXPECT_TRUE(seen.insert(cpu).second) << "cpu " << cpu << " is given twice: " << ran.out;
    if (cores.size() > 64) continue;
    EXPECT_TRUE(std::ranges::any_of(cores, [&](const CpuCore& core) { return core.cpus == cpus; })) << text;
  }
  EXPECT_EQ(lists, ranks);
  const auto crowded = run_script(64, "true", {"--bind-to", "core"});
  if (std::thread::hardware_concurrency() < 64) {
    EXPECT_EQ(crowded.code, 125);
    EXPECT_THAT(crowded.err, HasSubstr("64 ranks but only"));
  }
}

TEST_F(Job, AHundredRanks) {
  const auto ran = run_script(100, "echo $XOE_RANK");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(lines_of(ran.out).size(), 100U);
}

}  // namespace
}  // namespace xoe::launch
