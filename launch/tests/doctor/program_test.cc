// The program: on this machine, in name spaces, over a script in place of ssh.
#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "core/testing/places.h"
#include "core/testing/scratch.h"
#include "launch/doctor/report/report.h"
#include "launch/tests/doctor/findings.h"

namespace xoe::doctor {
namespace {

using ::testing::HasSubstr;

struct Ended {
  int code = -1;
  std::string out;
  std::string error;
};

std::string program() { return built_command("xoe-doctor"); }

Ended run(std::vector<std::string> words) {
  const Scratch scratch;
  const std::string out = scratch.file("out");
  const std::string error = scratch.file("error");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/null", O_RDONLY), 0);
    ::dup2(::open(out.c_str(), O_CREAT | O_WRONLY, 0600), 1);
    ::dup2(::open(error.c_str(), O_CREAT | O_WRONLY, 0600), 2);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), read_file(out), read_file(error)};
}

Ended doctor(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program());
  return run(std::move(arguments));
}

// Every member that docs/reference/doctor.md promises.
void expect_schema(const Json& json) {
  EXPECT_EQ(json["schema"], 1);
  EXPECT_TRUE(json["host"].is_string());
  EXPECT_TRUE(json["versions"].is_object());
  EXPECT_TRUE(json["addresses"].is_array());
  EXPECT_TRUE(json["engines"].is_array());
  std::set<std::string> ids;
  for (const Json& finding : json["findings"]) {
    for (const char* const key : {"id", "group", "state", "what", "why", "fix"})
      EXPECT_TRUE(finding[key].is_string()) << finding;
    EXPECT_TRUE(finding["details"].is_object()) << finding;
    EXPECT_TRUE(ids.insert(finding["id"]).second) << "twice: " << finding["id"];
    EXPECT_TRUE(finding["id"].get<std::string>().starts_with(finding["group"].get<std::string>() + "."));
  }
  for (const char* const state : {"ok", "note", "warning", "problem", "skipped"})
    EXPECT_TRUE(json["summary"][state].is_number_integer());
}

TEST(DoctorProgram, ThisMachine) {
  const Ended ended = doctor({"--json"});
  const auto report = parse_report(ended.out);
  ASSERT_TRUE(report) << ended.out << ended.error;
  expect_schema(Json::parse(ended.out));
  const Count count = count_severities(report->findings);
  EXPECT_EQ(ended.code, count[Severity::kProblem] > 0 ? 1 : 0);
  // These tests share memory between processes, so it works here.
  expect_states(report->findings, {{"xoe.shm", Severity::kOk}, {"process.kernel", Severity::kOk}});
  std::set<std::string> groups;
  for (const Finding& finding : report->findings) groups.emplace(finding.group());
  for (const std::string_view group : kGroups) {
    if (group == "container") continue;  // whether this machine is one is for the tests on recorded trees
    EXPECT_EQ(groups.contains(std::string(group)), group != "compute") << group;
  }
}

TEST(DoctorProgram, TableForPeople) {
  const Ended ended = doctor({"--root", tree_path("container")});
  EXPECT_EQ(ended.code, 0) << ended.error;
  EXPECT_THAT(ended.out, HasSubstr("warning  /dev/shm holds 64 MiB"));
  EXPECT_THAT(ended.out, HasSubstr("3 warnings"));
  EXPECT_EQ(ended.out.find('\033'), std::string::npos);
  EXPECT_EQ(doctor({"--root", tree_path("container"), "--strict"}).code, 1);
  EXPECT_EQ(doctor({"--root", tree_path("bare"), "--strict"}).code, 0);
}

TEST(DoctorProgram, ProblemsFail) {
  const Ended ended = doctor({"--root", tree_path("vm"), "--nvml", "libxoe-no-such.so", "--only", "gpu"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, HasSubstr("problem"));
  EXPECT_THAT(ended.out, HasSubstr("docker run --gpus all"));
}

TEST(DoctorProgram, RefusesWhatMakesNoSense) {
  EXPECT_EQ(doctor({"--help"}).code, 0);
  EXPECT_EQ(doctor({"--only", "gpus"}).code, 2);
  EXPECT_EQ(doctor({"--root", "none"}).code, 2);
  EXPECT_EQ(doctor({"--hosts", "-oProxyCommand=touch x"}).code, 2);
  EXPECT_EQ(doctor({"--hosts", "a", "--hostfile", "b"}).code, 2);
  EXPECT_EQ(doctor({"--hostfile", "none"}).code, 2);
  EXPECT_EQ(doctor({"--hosts", ""}).code, 2);
  EXPECT_EQ(doctor({"--ssh-port", "0"}).code, 2);
  EXPECT_EQ(doctor({"--what"}).code, 2);
}

bool may_unshare() { return run({"unshare", "--net", "--mount", "true"}).code == 0; }

TEST(DoctorProgram, NetworkNamespaceHasOnlyLoopback) {
  if (!may_unshare()) GTEST_SKIP() << "needs root";
  const Ended ended =
      run({"unshare", "--net", "--mount", "sh", "-c",
           "ip link set lo up; mount -t sysfs none /sys; exec \"$0\" --json --only network", program()});
  ASSERT_EQ(ended.code, 0) << ended.error;
  const auto report = parse_report(ended.out).value();
  EXPECT_THAT(find(report.findings, "network.tcp").what, HasSubstr("only loopback"));
  expect_states(report.findings, {{"network.tcp", Severity::kWarning}});
  EXPECT_TRUE(report.addresses.empty());
}

TEST(DoctorProgram, SmallSharedMemoryOfAContainer) {
  if (!may_unshare()) GTEST_SKIP() << "needs root";
  const Ended ended = run({"unshare", "--mount", "sh", "-c",
                           "mount -t tmpfs -o size=64m shm /dev/shm && exec \"$0\" --json --only memory", program()});
  ASSERT_EQ(ended.code, 0) << ended.error;
  const auto report = parse_report(ended.out).value();
  expect_states(report.findings, {{"memory.shm", Severity::kWarning}});
  EXPECT_EQ(find(report.findings, "memory.shm").details["size"], 64 << 20);
  EXPECT_EQ(find(report.findings, "memory.shm").details["docker_default"], true);
}

// Runs commands here, or fails in the ways of ssh, by the name of the host.
constexpr const char* kSsh = R"(#!/bin/sh
printf '%s\n' "$@" >> "$0.arguments"
while [ $# -gt 2 ]; do shift; done
host=$1
shift
case $host in
  gone) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255 ;;
  denied) echo "me@$host: Permission denied (publickey)." >&2; exit 255 ;;
  hangs) exec sleep 60 ;;
  empty) exec sh -c "echo sh: xoe: not found >&2; exit 127" ;;
  cut) exit 255 ;;
  noisy) echo "Welcome to $host" ;;
esac
exec sh -c "$*"
)";

class DoctorHosts : public ::testing::Test {
 protected:
  DoctorHosts() {
    put_file(ssh(), kSsh);
    ::chmod(ssh().c_str(), 0700);
  }
  std::string ssh() const { return scratch_.file("ssh"); }
  std::string arguments() const { return read_file(ssh() + ".arguments"); }
  Json ask(const std::string& hosts, int code) const {
    const Ended ended =
        doctor({"--json", "--only", "xoe,network", "--hosts", hosts, "--ssh-command", ssh(), "--connect-timeout", "1"});
    EXPECT_EQ(ended.code, code) << ended.out << ended.error;
    return Json::parse(ended.out, nullptr, false);
  }

  Scratch scratch_;
};

TEST_F(DoctorHosts, TwoHostsAreReachedComparedAndMeasured) {
  const Ended ended = doctor({"--json", "--only", "network", "--hosts", "one:4,noisy", "--ssh-command", ssh()});
  const Json json = Json::parse(ended.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << ended.error;
  expect_schema(json);
  ASSERT_EQ(json["hosts"].size(), 2U);
  for (const Json& host : json["hosts"]) {
    EXPECT_TRUE(host["reached"].get<bool>());
    expect_schema(host["report"]);
    // It is the same clock.
    EXPECT_LE(std::abs(host["clock_offset_s"].get<double>()), host["clock_bound_s"].get<double>() + 1e-3);
  }
  EXPECT_EQ(json["hosts"][0]["name"], "one");
  if (json["addresses"].empty()) GTEST_SKIP() << "no address but loopback's";
  ASSERT_EQ(json["pairs"].size(), 2U);
  for (const Json& pair : json["pairs"]) {
    EXPECT_EQ(pair["error"], "");
    const Json& way = pair["ways"][0];
    EXPECT_TRUE(way["reached"].get<bool>()) << way;
    EXPECT_GT(way["latency_s"].get<double>(), 0);
    EXPECT_GT(way["bytes_per_s"].get<double>(), 0);
  }
  // Tokens go over pipes.
  EXPECT_THAT(arguments(), HasSubstr("BatchMode=yes"));
  EXPECT_EQ(arguments().find("listen"), std::string::npos);
}

TEST_F(DoctorHosts, EachFailureIsOneFindingWithItsRemedy) {
  const Json json = ask("gone,denied,empty,cut,hangs", 1);
  ASSERT_TRUE(json.is_object());
  std::map<std::string, std::string> kinds;
  for (const Json& finding : json["findings"])
    if (finding["id"].get<std::string>().starts_with("hosts.reach.")) {
      EXPECT_EQ(finding["state"], "problem");
      EXPECT_FALSE(finding["fix"].get<std::string>().empty());
      kinds[finding["details"]["host"]] = finding["details"]["kind"];
    }
  EXPECT_EQ(kinds["gone"], "unreachable");
  EXPECT_EQ(kinds["denied"], "permission_denied");
  EXPECT_EQ(kinds["empty"], "xoe_missing");
  EXPECT_EQ(kinds["cut"], "other");
  EXPECT_EQ(kinds["hangs"], "timeout");
  EXPECT_TRUE(json["pairs"].empty());
}

TEST_F(DoctorHosts, HostfileAndOptionsReachSsh) {
  put_file(scratch_.file("hosts"), "# two\none slots=2\ngone\n");
  const Ended ended = doctor({"--only", "network", "--hostfile", scratch_.file("hosts"), "--ssh-command", ssh() + " -v",
                              "--ssh-port", "2222", "--ssh-identity-file", "key"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, HasSubstr("gone: unreachable"));
  EXPECT_THAT(ended.out, HasSubstr("one: reached without a password"));
  EXPECT_THAT(arguments(), HasSubstr("-v\n-T\n"));
  EXPECT_THAT(arguments(), HasSubstr("-p\n2222\n-i\nkey\n-o\nIdentitiesOnly=yes\none\n"));
}

}  // namespace
}  // namespace xoe::doctor
