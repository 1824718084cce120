// Other hosts: the probe, its door-keeping, and what is said about hosts that differ.
#include <gmock/gmock.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "doctor/agent.h"
#include "doctor/channel.h"
#include "doctor/cluster.h"
#include "doctor/probe.h"
#include "doctor/report.h"
#include "doctor/tree.h"
#include "findings.h"
#include "scratch.h"

namespace xoe::doctor {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

const std::string kToken(kTokenBytes, 'a');

// Serves until the object goes.
class Serving {
 public:
  Serving()
      : server_(ProbeServer::listen(kToken).value()), port_(server_.port()), thread_([this](std::stop_token stop) {
          while (!stop.stop_requested()) {
            std::vector<pollfd> entries;
            server_.entries(entries);
            ::poll(entries.data(), entries.size(), 5);
            server_.serve();
          }
        }) {}
  int port() const { return port_; }
  std::vector<Received> finish() {
    thread_.request_stop();
    thread_.join();
    return server_.finish();
  }

 private:
  ProbeServer server_;
  int port_;
  std::jthread thread_;
};

TEST(Probe, MeasuresAndCountsWhatArrives) {
  Serving serving;
  const auto ways = probe_addresses({"127.0.0.1", "::1", "192.0.2.77x"}, serving.port(), kToken, {0});
  ASSERT_EQ(ways.size(), 3U);
  EXPECT_EQ(ways[0].error, "");
  EXPECT_GT(ways[0].latency, 0);
  EXPECT_LT(ways[0].latency, 1);
  EXPECT_TRUE(ways[0].loaded);
  EXPECT_FALSE(ways[1].loaded);
  EXPECT_THAT(ways[2].error, HasSubstr("no IP address"));
  const auto received = serving.finish();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].address, 0);
  EXPECT_GT(received[0].bytes, 1U << 20);
  EXPECT_GT(received[0].seconds, 0);
}

TEST(Probe, WithoutTheTokenNothingIsServed) {
  Serving serving;
  const auto ways = probe_addresses({"127.0.0.1"}, serving.port(), std::string(kTokenBytes, 'b'), {0});
  EXPECT_THAT(ways[0].error, HasSubstr("not our probe"));
  EXPECT_FALSE(ways[0].loaded);
  EXPECT_TRUE(serving.finish().empty());
}

TEST(Probe, SilentClientsDoNotKeepOthersOut) {
  Serving serving;
  std::vector<Fd> silent;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(serving.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 8; ++i) {
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(::connect(silent.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  EXPECT_EQ(probe_addresses({"127.0.0.1"}, serving.port(), kToken, {})[0].error, "");
  // And they are shown out.
  char byte = 0;
  EXPECT_EQ(::recv(silent.front().get(), &byte, 1, 0), 0);
}

TEST(Probe, NobodyListens) {
  int port = 0;
  {
    const auto server = ProbeServer::listen(kToken).value();
    port = server.port();
  }
  EXPECT_THAT(probe_addresses({"127.0.0.1"}, port, kToken, {})[0].error, HasSubstr("refused"));
  EXPECT_FALSE(ProbeServer::listen("short"));
}

TEST(Agent, AnswersAndEndsWithItsInput) {
  int requests[2];
  int answers[2];
  ASSERT_EQ(::pipe(requests), 0);
  ASSERT_EQ(::pipe(answers), 0);
  const Fd in(requests[0]);
  const Fd out(answers[1]);
  const Fd from(answers[0]);
  const ExamineOptions options{.root = tree_path("bare"), .version = "1.2.3"};
  std::jthread agent([&] {
    const Status ended = run_agent(in.get(), out.get(), options);
    EXPECT_TRUE(ended);
  });
  std::string text;
  {
    const Fd to(requests[1]);
    const std::string all = "hello\nclock\nnonsense\nlisten short\nprobe 0 x - y\nreceived\nreport\n";
    ASSERT_EQ(::write(to.get(), all.data(), all.size()), static_cast<ssize_t>(all.size()));
    char part[65536];
    while (std::count(text.begin(), text.end(), '\n') < 7) {
      const auto count = ::read(from.get(), part, sizeof part);
      ASSERT_GT(count, 0);
      text.append(part, static_cast<std::size_t>(count));
    }
  }
  agent.join();
  std::vector<Json> lines;
  for (const std::string& line : lines_of(text)) {
    ASSERT_TRUE(line.starts_with(kAnswerMark));
    lines.push_back(Json::parse(line.substr(kAnswerMark.size())));
  }
  EXPECT_EQ(lines[0]["xoe"], "1.2.3");
  EXPECT_GT(lines[1]["clock_ns"].get<std::int64_t>(), std::int64_t{1'700'000'000} * 1'000'000'000);
  for (const std::size_t wrong : {2, 3, 4}) EXPECT_TRUE(lines[wrong].contains("error")) << wrong;
  EXPECT_TRUE(lines[5]["received"].empty());
  EXPECT_EQ(parse_report(lines[6].dump()).value().host, "bare");
}

TEST(Channel, PassesOverWhatALoginShellPrints) {
  auto channel =
      Channel::start({"sh", "-c", "echo hello; echo '@xoe-doctor {\"a\":1}'; read line; echo \"@xoe-doctor $line\""})
          .value();
  Channel* const self = &channel;
  ASSERT_TRUE(Channel::wait(std::span(&self, 1), Channel::Clock::now() + 10s));
  EXPECT_EQ(channel.take(), "{\"a\":1}");
  EXPECT_EQ(channel.ask("again", 10s).value(), "again");
}

TEST(Channel, ProgramsThatEndHangOrFlood) {
  auto ends = Channel::start({"sh", "-c", "echo words >&2; exit 9"}).value();
  EXPECT_EQ(ends.ask("hello", 10s).error().code(), Code::kUnavailable);
  EXPECT_EQ(ends.code(10s), 9);
  EXPECT_EQ(ends.error(), "words\n");
  const auto begin = Channel::Clock::now();
  {
    auto hangs = Channel::start({"sh", "-c", "trap '' TERM; while :; do sleep 60; done"}).value();
    EXPECT_EQ(hangs.ask("hello", 50ms).error().code(), Code::kTimeout);
  }
  EXPECT_LT(Channel::Clock::now() - begin, 20s);
  auto floods = Channel::start({"sh", "-c", "exec yes"}).value();
  EXPECT_EQ(floods.ask("hello", 60s).error().code(), Code::kUnavailable);
  auto missing = Channel::start({"xoe-no-such-program"}).value();
  EXPECT_FALSE(missing.ask("hello", 10s));
  EXPECT_EQ(missing.code(10s), 255);
  EXPECT_THAT(missing.error(), HasSubstr("cannot start xoe-no-such-program"));
}

Report report_of(const std::string& host, const std::string& nccl, std::vector<std::string> engines) {
  return {.host = host, .versions = {{"xoe", "1.0"}, {"kernel", "6.1"}, {"nccl", nccl}}, .engines = std::move(engines)};
}

TEST(Cluster, DifferencesBetweenHosts) {
  std::vector<HostResult> hosts = {{.name = "a",
                                    .version = "1.0",
                                    .clock_offset = 2.5,
                                    .clock_bound = 0.001,
                                    .clock_known = true,
                                    .report = report_of("a", "2.27.5", {"nccl", "gloo"})},
                                   {.name = "b",
                                    .version = "1.0",
                                    .clock_offset = -0.05,
                                    .clock_bound = 0.2,
                                    .clock_known = true,
                                    .report = report_of("b", "2.20.5", {"mpi", "gloo"})}};
  const Report here = report_of("here", "2.27.5", {});
  const Findings all = check_cluster(hosts, {}, here);
  expect_states(all, {{"hosts.reach.a", State::kOk},
                      {"hosts.clock.a", State::kWarning},
                      {"hosts.clock.b", State::kOk},
                      {"hosts.version.xoe", State::kOk},
                      {"hosts.version.nccl", State::kWarning},
                      {"hosts.backend", State::kOk}});
  EXPECT_THAT(find(all, "hosts.clock.a").what, HasSubstr("2.5 s ahead"));
  EXPECT_THAT(find(all, "hosts.version.nccl").what, HasSubstr("2.20.5 on b"));
  EXPECT_EQ(find(all, "hosts.backend").details["engine"], "gloo");
  hosts[1].report->versions["xoe"] = "0.9";
  hosts[1].report->engines = {};
  expect_states(check_cluster(hosts, {}, here),
                {{"hosts.version.xoe", State::kProblem}, {"hosts.backend", State::kProblem}});
}

TEST(Cluster, PairsWithoutAWayAndSlowOnes) {
  const std::vector<Pair> pairs = {
      {.from = "a", .to = "b", .ways = {{.interface = "eth0", .address = "10.0.0.2", .latency = 1e-5, .rate = 1.2e9}}},
      {.from = "b", .to = "a", .ways = {{.interface = "eth0", .address = "10.0.0.1", .latency = 1e-5, .rate = 1.2e7}}},
      {.from = "b",
       .to = "c",
       .ways = {{.interface = "eth0", .address = "10.0.0.3", .error = "no answer within 300 ms"}}}};
  const Findings all = check_cluster({}, pairs, {});
  expect_states(all, {{"hosts.pairs", State::kWarning}, {"hosts.pair.b.c", State::kProblem}});
  EXPECT_THAT(find(all, "hosts.pair.b.c").fix, HasSubstr("firewall"));
  EXPECT_THAT(find(all, "hosts.pairs").what, HasSubstr("96 Mbit/s to 9.6 Gbit/s"));
  EXPECT_THAT(find(all, "hosts.pairs").table, HasSubstr("10.0.0.3"));
}

TEST(Cluster, ManyHostsAreMeasuredInARing) {
  EXPECT_TRUE(pairs_of(0).empty());
  EXPECT_TRUE(pairs_of(1).empty());
  EXPECT_EQ(pairs_of(2).size(), 2U);
  EXPECT_EQ(pairs_of(8).size(), 56U);
  const auto ring = pairs_of(64);
  ASSERT_EQ(ring.size(), 64U);
  EXPECT_EQ(ring.back(), (std::pair<std::size_t, std::size_t>(63, 0)));
}

}  // namespace
}  // namespace xoe::doctor
