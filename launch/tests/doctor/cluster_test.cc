// Other hosts: the probe, who may use it, and the findings about hosts that differ.
#include <gmock/gmock.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "core/testing/scratch.h"
#include "launch/doctor/cluster/cluster.h"
#include "launch/doctor/cluster/probe.h"
#include "launch/doctor/cluster/probe_agent.h"
#include "launch/doctor/facts/tree.h"
#include "launch/doctor/report/report.h"
#include "launch/remote/child_process.h"
#include "launch/remote/frame_connection.h"
#include "launch/tests/doctor/findings.h"

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

Fd connect_to(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return client;
}

TEST(Probe, MeasuresAndCountsWhatArrives) {
  Serving serving;
  const auto paths = probe_addresses({"127.0.0.1", "::1", "192.0.2.77x"}, serving.port(), kToken, {0});
  ASSERT_EQ(paths.size(), 3U);
  EXPECT_EQ(paths[0].error, "");
  EXPECT_GT(paths[0].latency, 0);
  EXPECT_LT(paths[0].latency, 1);
  EXPECT_TRUE(paths[0].loaded);
  EXPECT_FALSE(paths[1].loaded);
  EXPECT_THAT(paths[2].error, HasSubstr("no IP address"));
  const auto received = serving.finish();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].address, 0);
  EXPECT_GT(received[0].bytes, 1U << 20);
  EXPECT_GT(received[0].seconds, 0);
}

TEST(Probe, WithoutTheTokenNothingIsServed) {
  Serving serving;
  const auto paths = probe_addresses({"127.0.0.1"}, serving.port(), std::string(kTokenBytes, 'b'), {0});
  EXPECT_THAT(paths[0].error, HasSubstr("not our probe"));
  EXPECT_FALSE(paths[0].loaded);
  EXPECT_TRUE(serving.finish().empty());
}

TEST(Probe, SilentClientsDoNotKeepOthersOut) {
  Serving serving;
  std::vector<Fd> silent;
  for (int i = 0; i < 8; ++i) silent.push_back(connect_to(serving.port()));
  EXPECT_EQ(probe_addresses({"127.0.0.1"}, serving.port(), kToken, {})[0].error, "");
  // And they are shown out.
  std::array<char, 256> bytes;
  EXPECT_EQ(::recv(silent.front().get(), bytes.data(), bytes.size(), MSG_WAITALL), bootstrap::kNonceBytes);
}

// The hello of a client that knows the token is of no use to a client that overhears it.
TEST(Probe, AHelloOpensOneConnection) {
  Serving serving;
  std::string hello;
  const auto echoes = [&] {
    const Fd client = connect_to(serving.port());
    std::string nonce(bootstrap::kNonceBytes, '\0');
    EXPECT_EQ(::recv(client.get(), nonce.data(), nonce.size(), MSG_WAITALL), static_cast<ssize_t>(nonce.size()));
    const std::string asked("XOE2L\0", kAsked);
    if (hello.empty()) hello = asked + bootstrap::make_proof(kToken, bootstrap::End::kClient, asked, nonce) + "echo";
    EXPECT_EQ(::send(client.get(), hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
    char byte = 0;
    return ::recv(client.get(), &byte, 1, 0) == 1 && byte == 'e';
  };
  EXPECT_TRUE(echoes());
  EXPECT_FALSE(echoes()) << "said again";
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

TEST(ProbeAgent, AnswersAndEndsWithItsInput) {
  auto requests = remote::open_pipe().value();
  auto answers = remote::open_pipe().value();
  const ExamineOptions options{.root = tree_path("bare"), .version = "1.2.3"};
  std::jthread agent([&, in = std::move(requests[0]), out = std::move(answers[1])]() mutable {
    EXPECT_TRUE(answer_requests(std::move(in), std::move(out), options));
  });
  remote::FrameConnection doctor(std::move(answers[0]), std::move(requests[1]), false);
  for (const char* const request : {"clock", "nonsense", "listen short", "probe 0 x - y", "received", "report"})
    doctor.send({.kind = remote::Frame::Kind::kRequest, .text = request});
  doctor.write();
  std::vector<Json> replies;
  bool ready = false;
  while (replies.size() < 6) {
    pollfd entry{doctor.in(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
    doctor.read();
    while (const auto frame = doctor.next().value()) {
      if (frame->kind == remote::Frame::Kind::kAnswer)
        replies.push_back(Json::parse(frame->text));
      else
        ready = frame->kind == remote::Frame::Kind::kReady && replies.empty();
    }
    ASSERT_FALSE(doctor.closed());
  }
  doctor.close();
  agent.join();
  EXPECT_TRUE(ready);
  EXPECT_GT(replies[0]["clock_ns"].get<std::int64_t>(), std::int64_t{1'700'000'000} * 1'000'000'000);
  for (const std::size_t wrong : {1, 2, 3}) EXPECT_TRUE(replies[wrong].contains("error")) << wrong;
  EXPECT_TRUE(replies[4]["received"].empty());
  EXPECT_EQ(parse_report(replies[5].dump()).value().host, "bare");
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
  expect_states(all, {{"hosts.reach.a", Severity::kOk},
                      {"hosts.clock.a", Severity::kWarning},
                      {"hosts.clock.b", Severity::kOk},
                      {"hosts.version.xoe", Severity::kOk},
                      {"hosts.version.nccl", Severity::kWarning},
                      {"hosts.backend", Severity::kOk}});
  EXPECT_THAT(find(all, "hosts.clock.a").what, HasSubstr("2.5 s ahead"));
  EXPECT_THAT(find(all, "hosts.version.nccl").what, HasSubstr("2.20.5 on b"));
  EXPECT_EQ(find(all, "hosts.backend").details["engine"], "gloo");
  hosts[1].report->versions["xoe"] = "0.9";
  hosts[1].report->engines = {};
  expect_states(check_cluster(hosts, {}, here),
                {{"hosts.version.xoe", Severity::kProblem}, {"hosts.backend", Severity::kProblem}});
}

TEST(Cluster, PairsWithoutAPathAndSlowOnes) {
  const std::vector<Pair> pairs = {
      {.from = "a", .to = "b", .paths = {{.interface = "eth0", .address = "10.0.0.2", .latency = 1e-5, .rate = 1.2e9}}},
      {.from = "b", .to = "a", .paths = {{.interface = "eth0", .address = "10.0.0.1", .latency = 1e-5, .rate = 1.2e7}}},
      {.from = "b",
       .to = "c",
       .paths = {{.interface = "eth0", .address = "10.0.0.3", .error = "no answer within 300 ms"}}}};
  const Findings all = check_cluster({}, pairs, {});
  expect_states(all, {{"hosts.pairs", Severity::kWarning}, {"hosts.pair.b.c", Severity::kProblem}});
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
