// How jobs end, and what is said about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "core/testing/scratch.h"
#include "launch/remote/host_list.h"
#include "launch/tests/launched.h"

namespace xoe::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(JobEnd, GoodJobsAreQuiet) {
  const auto ran = run_script(2, "true");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out + ran.err, "");
}

TEST(JobEnd, ReturnsTheFailingCode) {
  const auto ran = run_script(3, "[ $XOE_RANK = 1 ] || sleep 100; echo working; echo broken pipework >&2; exit 7");
  EXPECT_EQ(ran.code, 7);
  EXPECT_THAT(ran.err, HasSubstr("rank 1 (host " + remote::this_hostname() + ", pid "));
  EXPECT_THAT(ran.err, HasSubstr("exited with code 7 after "));
  EXPECT_THAT(ran.err, HasSubstr("s; its last line: broken pipework\n"));
  EXPECT_THAT(ran.err, HasSubstr("2 other ranks were ended by SIGTERM"));
}

// The rank's own lines have told it: the report is one line that says who was the first.
TEST(JobEnd, ATracebackAppearsOnce) {
  const auto ran =
      run_script(2,
                 "[ $XOE_RANK = 1 ] || exec sleep 100; printf 'Traceback (most recent call last):\\n  File "
                 "\"t.py\", line 3\\nValueError: bad\\n' >&2; exit 1");
  EXPECT_EQ(ran.code, 1);
  const auto lines = lines_of(ran.err);
  ASSERT_EQ(lines.size(), 5U) << ran.err;
  EXPECT_EQ(lines[0], "[1] Traceback (most recent call last):");
  EXPECT_EQ(lines[2], "[1] ValueError: bad");
  EXPECT_THAT(lines[3], testing::AllOf(HasSubstr("xoe run: rank 1 ("), HasSubstr("its last line: ValueError: bad")));
}

// As Rscript ends a program that calls stop("bad").
TEST(JobEnd, TheReasonOfAnRProgramIsQuoted) {
  const auto ran = run_script(2,
                              "[ $XOE_RANK = 1 ] || exec sleep 100; printf 'Error in fit(1) : bad\\nCalls: "
                              "main -> fit\\nExecution halted\\n' >&2; exit 1");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("; it wrote: Error in fit(1) : bad\n"));
}

// What it leaves behind is freed in an order of the kernel's: others may see its pipes closed while it still ends.
TEST(JobEnd, AKilledRankIsTheCauseThoughItTakesLongToEnd) {
  const Scratch scratch;
  const std::string pipe = scratch.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string killed =
      "import os, sys\n"
      "def large():\n"
      "  file = os.memfd_create('large')\n"
      "  for _ in range(300): os.write(file, bytes(1 << 20))\n"
      "large(); pipe = os.open(sys.argv[1], os.O_WRONLY); large()\n"
      "os.write(pipe, b'x'); os.kill(os.getpid(), 9)";
  const std::string survivor = "import os, sys; open(sys.argv[1], 'rb').read(); os._exit(3)";
  const auto python = [&](const std::string& program) { return "exec python3 -c \"" + program + "\" " + pipe; };
  const auto ran = run_script(2, "[ $XOE_RANK = 1 ] && " + python(killed) + "\n" + python(survivor));
  EXPECT_EQ(ran.code, 137);
  EXPECT_THAT(ran.err, HasSubstr("rank 1 ("));
}

// Some supervisors ignore SIGCHLD, and every program below them does, too.
TEST(JobEnd, ReturnsTheFailingCodeWhereSigchldIsIgnored) {
  struct sigaction before = {};
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGCHLD, &ignore, &before);
  Launched job(script_arguments(2, "exit 5"));
  ::sigaction(SIGCHLD, &before, nullptr);
  EXPECT_EQ(job.wait().code, 5);
}

// Not the launcher's end by SIGXFSZ.
TEST(JobEnd, ALimitOnTheSizeOfFilesIsAnError) {
  const Scratch scratch;
  const std::string place = scratch.file("limit");
  const std::string run = "ulimit -f 8; " + xoe_path() + " run -np 1 bash -c 'head -c 100000 /dev/zero; sleep 0.1' > " +
                          place + ".out 2> " + place + ".err";
  const int status = std::system(("bash -c \"" + run + "\"").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 125);
  EXPECT_THAT(file_text(place + ".err"), HasSubstr("cannot write the job's output: File too large"));
}

// The pipe has no reader until the job is over.
TEST(JobEnd, AReaderThatIsStuckDoesNotStretchTheTimeLimit) {
  const Scratch scratch;
  const std::string place = scratch.file("stuck");
  const std::string run = "{ " + xoe_path() + " run -np 1 --timeout 0.5 --grace 0.5 yes 2> " + place +
                          ".err; echo code $? > " + place + "; } | while [ ! -s " + place + " ]; do sleep 0.1; done";
  EXPECT_EQ(std::system(("timeout 60 bash -c '" + run + "'").c_str()), 0);
  EXPECT_EQ(file_text(place), "code 124\n");
  EXPECT_THAT(file_text(place + ".err"), HasSubstr("no reader took it in time"));
}

TEST(JobEnd, SaysTheSignal) {
  const auto ran = run_script(2, "echo last words; [ $XOE_RANK = 0 ] && kill -SEGV $$; sleep 100");
  EXPECT_EQ(ran.code, 128 + SIGSEGV);
  EXPECT_THAT(ran.err, HasSubstr("was killed by SIGSEGV (segmentation fault)"));
  EXPECT_THAT(ran.err, HasSubstr("s; its last line: last words\n"));
  EXPECT_EQ(run_script(1, "kill -KILL $$").code, 137);
  EXPECT_THAT(run_script(1, "kill -ABRT $$").err, HasSubstr("SIGABRT"));
}

// Rank 1 dies, and rank 0 fails as soon as it sees that.
TEST(JobEnd, NamesTheFirstFailure) {
  const Scratch scratch;
  const std::string place = scratch.file("first");
  for (int round = 0; round < 10; ++round) {
    const std::string script =
        "F=" + place +
        "; if [ $XOE_RANK = 1 ]; then echo $$ > $F.new; mv $F.new $F; sleep 0.02; kill -9 $$; fi; "
        "until [ -e $F ]; do :; done; read -r pid < $F; "
        "while read -r _ _ state _ < /proc/$pid/stat && [ $state != Z ]; do :; done 2>/dev/null; "
        "exit 3";
    const auto ran = run_script(2, script);
    std::remove(place.c_str());
    ASSERT_EQ(ran.code, 137) << ran.err;
    ASSERT_THAT(ran.err, HasSubstr("rank 1 "));
  }
}

// Rank 1 fails with `code`, `pause` seconds after rank 0 has done `prepare`; rank 0 stays.
Finished fails_after(const std::string& prepare, const std::string& pause, int code,
                     const std::vector<std::string>& options = {}) {
  const Scratch scratch;
  const std::string ready = scratch.file("ready");
  return run_script(2,
                    "F=" + ready + "; if [ $XOE_RANK = 1 ]; then until [ -e $F ]; do sleep 0.01; done; sleep " + pause +
                        "; exit " + std::to_string(code) + "; fi; " + prepare +
                        "; : > $F; while true; do sleep 0.05; done",
                    options);
}

TEST(JobEnd, KillsWhoIgnoresSigterm) {
  const auto start = std::chrono::steady_clock::now();
  const auto ran = fails_after("trap '' TERM", "0.3", 5, {"--grace", "0.5"});
  EXPECT_EQ(ran.code, 5);
  EXPECT_LT(seconds_since(start), 20);
  EXPECT_GE(seconds_since(start), 0.8);
  EXPECT_THAT(ran.err, HasSubstr("1 of them by SIGKILL after 500 ms of grace"));
}

TEST(JobEnd, LeavesTimeToEndWell) {
  const auto ran = fails_after("trap 'sleep 0.2; echo saved; exit 0' TERM", "0", 4);
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.out, HasSubstr("[0] saved"));
  EXPECT_THAT(ran.err, Not(HasSubstr("SIGKILL")));
}

TEST(JobEnd, TimeLimit) {
  const auto start = std::chrono::steady_clock::now();
  const auto ran = run_script(2, "echo begun; sleep 100", {"--timeout", "2"});
  EXPECT_EQ(ran.code, 124);
  EXPECT_LT(seconds_since(start), 10);
  EXPECT_THAT(ran.err, HasSubstr("time limit of 2 s is over"));
  EXPECT_THAT(ran.out, HasSubstr("[1] begun"));
  EXPECT_EQ(run_script(2, "true", {"--timeout", "60"}).code, 0);
}

TEST(JobEnd, BackgroundProcessesEndWithTheJob) {
  const auto start = std::chrono::steady_clock::now();
  // It holds the output pipe, ignores SIGTERM and has a session of its own.
  const auto ran =
      run_script(2, "setsid bash -c 'trap \"\" TERM; while true; do sleep 0.05; done' & echo done", {"--grace", "0.3"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("[0] done"));
  EXPECT_LT(seconds_since(start), 10);
}

TEST(JobEnd, ShortBackgroundWorkMayFinish) {
  const auto ran = run_script(1, "(sleep 0.05; echo late) & echo early");
  EXPECT_EQ(ran.out, "[0] early\n[0] late\n");
}

TEST(JobEnd, OneRankMayEndEarly) {
  const auto ran = run_script(2, "[ $XOE_RANK = 1 ] && exit 0; sleep 0.3; echo still here");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "[0] still here\n");
}

TEST(JobEnd, AClosedOutputEndsTheJob) {
  const std::string command = xoe_path() + " run -np 2 yes 2>/dev/null | head -n 1; exit ${PIPESTATUS[0]}";
  EXPECT_EQ(WEXITSTATUS(std::system(("timeout 20 bash -c '" + command + "' >/dev/null").c_str())), 128 + SIGPIPE);
}

}  // namespace
}  // namespace xoe::launch
