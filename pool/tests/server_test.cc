// What the server does beyond the pool's rules: its routes, streams, limits, metrics.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/fd.h"
#include "pool/server/client.h"
#include "pool/server/host_reporter.h"
#include "pool/server/http_server.h"
#include "pool/server/openapi.h"
#include "pool/state/token.h"
#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

// A server with the user ann and the admin root, whose tokens are those with the numbers 1 and 2.
class Server : public ::testing::Test {
 protected:
  void start(const ServerOptions& options) {
    server_.reset();
    queue_.reset();
    Pool pool = open_pool(scratch_.file("pool.db"));
    ASSERT_TRUE(pool.begin(system_now()));
    const User admin{.name = "root", .role = Role::kAdmin, .token_hash = hash_of_token(token_number(2))};
    ASSERT_TRUE(pool.set_user(admin, admin));
    ASSERT_TRUE(pool.set_user(admin, {.name = "ann", .token_hash = hash_of_token(token_number(1))}));
    ASSERT_TRUE(pool.report(report_of("a", 4)));
    ASSERT_TRUE(pool.finish());
    queue_ = std::make_unique<CommandQueue>(std::move(pool), system_now);
    server_ = HttpServer::start(*queue_, system_now, options).value();
  }

  Client client(int token, Span answer_limit = 40s) {
    return Client::create({.url = fmt::format("http://127.0.0.1:{}", server_->port()),
                           .token = token_number(token),
                           .timeout = 0s,
                           .answer_limit = answer_limit})
        .value();
  }

  Fd open_stream(int token, const std::string& more = {}) { return send_get("/v1/events/stream", token, more); }

  Fd send_get(const std::string& path, int token, const std::string& more) { return send("GET " + path, token, more); }

  // A connection that has asked for something. It takes little at once.
  Fd send(const std::string& what, int token, const std::string& more) {
    return send_bytes(
        fmt::format("{} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n{}\r\n", what, token_number(token), more));
  }
  Fd send_bytes(const std::string& request) {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int small = 4096;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    more_bytes(fd, request);
    return fd;
  }
  static void more_bytes(const Fd& fd, const std::string& bytes) {
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  // Reads until `text` has come, or the stream has ended.
  static std::string read_until(const Fd& fd, const std::string& text) {
    const timeval timeout{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    std::string all;
    std::array<char, 65536> part;
    while (all.find(text) == std::string::npos) {
      const auto got = ::recv(fd.get(), part.data(), part.size(), 0);
      if (got <= 0) return all + (got == 0 ? "[end]" : "[silence]");
      all.append(part.data(), static_cast<std::size_t>(got));
    }
    return all;
  }

  void report(int gpus, int utilisation) {
    HostReport told = report_of("a", gpus);
    for (GpuActivity& activity : told.activity) activity.utilisation = utilisation;
    ASSERT_TRUE(queue_->change([&](Pool& pool) { EXPECT_TRUE(pool.report(told)); }, {}));
  }

  std::string metrics() { return read_until(send_get("/metrics", 1, "Connection: close\r\n"), "[never]"); }

  Scratch scratch_;
  std::unique_ptr<CommandQueue> queue_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Server, ItsDocumentHasItsRoutes) {
  start({});
  const auto document = nlohmann::json::parse(openapi_document());
  std::vector<Route> described;
  for (const auto& [path, operations] : document.at("paths").items())
    for (const auto& [method, operation] : operations.items()) {
      std::string upper = method;
      std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
      described.push_back({.method = upper, .path = path});
    }
  EXPECT_THAT(server_->routes(), UnorderedElementsAreArray(described));
}

TEST_F(Server, AStreamTellsWhatChanges) {
  start({});
  const Fd ann = open_stream(1, "Accept-Encoding: gzip, br\r\n");  // events are not held back to be compressed
  const std::string first = read_until(ann, "event: status");
  EXPECT_THAT(first, HasSubstr("200 OK"));
  EXPECT_THAT(first, HasSubstr("Content-Type: text/event-stream"));
  EXPECT_THAT(first, HasSubstr("Content-Security-Policy: "));
  const Fd root = open_stream(2);
  read_until(root, "event: status");
  Client by = client(1);
  ASSERT_TRUE(by.post("/v1/leases", {{"token", token_number(7)}, {"purpose", "a trial"}})->ok());
  const std::string seen = read_until(ann, "a trial");
  EXPECT_THAT(seen, HasSubstr("\"leases\":[{"));
  EXPECT_EQ(seen.find("event: audit"), std::string::npos);
  EXPECT_THAT(read_until(root, "granted"), HasSubstr("event: audit"));
}

TEST_F(Server, AStreamGoesOnAfterTheLastEventThatItsClientHas) {
  start({});
  Client by = client(1);
  ASSERT_TRUE(by.post("/v1/leases", {{"token", token_number(7)}})->ok());
  const std::string seen = read_until(open_stream(2, "Last-Event-ID: 1\r\n"), "granted");
  EXPECT_THAT(seen, HasSubstr("id: 2\nevent: audit\ndata: "));
  EXPECT_EQ(seen.find("id: 1\n"), std::string::npos);
  EXPECT_THAT(read_until(open_stream(2, "Last-Event-ID: x\r\n"), "}}"), HasSubstr("400 Bad Request"));
}

TEST_F(Server, StreamsEndCleanly) {
  start({.streams = {.life = 1s}});
  EXPECT_THAT(read_until(open_stream(1), "\r\n0\r\n\r\n"),
              HasSubstr("event: end\ndata: {\"why\":\"it was open for long"));
  start({.streams = {.keep_alive = 1s}});
  const Fd removed = open_stream(1);
  read_until(removed, "event: status");
  Client admin = client(2);
  ASSERT_TRUE(admin.post("/v1/users/remove", {{"name", "ann"}})->ok());
  EXPECT_THAT(read_until(removed, "\r\n0\r\n\r\n"), HasSubstr("no user has this token any more"));
  const Fd last = open_stream(2);
  read_until(last, "event: status");
  const auto begin = std::chrono::steady_clock::now();
  server_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 8s);
  EXPECT_THAT(read_until(last, "\r\n0\r\n\r\n"), HasSubstr("the server ends"));
}

TEST_F(Server, StreamsAreBounded) {
  start({.streams = {.streams = 3, .of_one_user = 2}});
  std::vector<Fd> open;
  const auto add = [&](int token) {
    open.push_back(open_stream(token));
    read_until(open.back(), "event: status");
  };
  add(1);
  add(1);
  EXPECT_THAT(read_until(open_stream(1), "}}"), HasSubstr("ann has 2 streams of events open"));
  add(2);
  const std::string refused = read_until(open_stream(2), "}}");
  EXPECT_THAT(refused, HasSubstr("429 Too Many Requests"));
  EXPECT_THAT(refused, HasSubstr("3 streams of events are open"));
  EXPECT_TRUE(client(1).get("/v1/status")->ok());
}

// While others are served.
TEST_F(Server, AClientThatReadsNothingIsDropped) {
  start({.write_timeout = 500ms});
  const Fd slow = open_stream(1);
  const auto end = std::chrono::steady_clock::now() + 30s;
  for (int i = 0; std::chrono::steady_clock::now() < end; ++i) {
    report(512, i % 100);
    std::this_thread::sleep_for(100ms);
    if (metrics().find("xoe_pool_streams_dropped_total 1\n") != std::string::npos) return;
  }
  FAIL() << "the stream was never given up";
}

TEST_F(Server, TooManyRequestsOfOneTokenAreRefused) {
  start({.rate = 5});
  Client fast = client(1);
  int refused = 0;
  for (int i = 0; i < 20; ++i) refused += fast.get("/v1/status")->status == 429 ? 1 : 0;
  EXPECT_GT(refused, 5);
  EXPECT_TRUE(client(2).get("/v1/status")->ok());
}

// So many new leases of one user the server takes at most until now, on a machine of any speed.
class NewLeases {
 public:
  void add(const Reply& reply) { made_ += reply.status == 429 ? 0 : 1; }
  void expect_limited() const {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
    EXPECT_LE(made_, 128 + 10 * took.count() + 1);
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int made_ = 0;
};

// Each leaves a lease and lines of the audit log, whatever becomes of it.
TEST_F(Server, AUserMakesSoManyLeasesInASecond) {
  start({});
  Client by = client(1);
  NewLeases leases;
  for (int i = 0; i < 400; ++i) {
    const auto reply = by.post("/v1/leases", {{"token", token_number(1000 + i)}, {"wait", i % 2 == 0}});
    leases.add(*reply);
    if (!reply->ok()) continue;
    const auto id = reply->body.at("lease").at("id").get<std::int64_t>();
    ASSERT_TRUE(by.post(fmt::format("/v1/leases/{}/release", id), {{"token", token_number(1000 + i)}})->ok());
  }
  leases.expect_limited();
  EXPECT_EQ(client(2).post("/v1/leases", {{"token", token_number(8)}})->status, 200);
}

TEST_F(Server, ThoseWhoAreRefusedHaveToWait) {
  start({});
  Client by = client(1);
  NewLeases leases;
  const auto first = by.post("/v1/leases", {{"token", token_number(7)}, {"gpus", 4}});
  ASSERT_TRUE(first->ok());
  leases.add(*first);
  for (int i = 0; i < 400; ++i) leases.add(*by.post("/v1/leases", {{"token", token_number(1000 + i)}}));
  leases.expect_limited();
  EXPECT_EQ(client(2).post("/v1/leases", {{"token", token_number(8)}})->status, 200);
}

// A body that was not read must not be taken for the next request of the connection.
TEST_F(Server, ABodyIsNoSecondRequest) {
  start({.rate = 1});
  const std::string second = "GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string length = fmt::format("Content-Length: {}\r\n\r\n{}", second.size(), second);
  const std::string got = read_until(send_get("/v1/me", 1, length), "[never]");
  EXPECT_THAT(got, HasSubstr("400 Bad Request"));
  EXPECT_THAT(got, HasSubstr("GET with a body is not understood"));
  EXPECT_EQ(got.find("openapi"), std::string::npos);
}

// Neither is bounded by the library.
TEST_F(Server, ABodyNeedsItsLengthAndNoEncoding) {
  start({});
  const auto post = [&](int token, const std::string& more) {
    return read_until(send("POST /v1/leases", token, more), "[never]");
  };
  EXPECT_THAT(post(1, "Transfer-Encoding: chunked\r\n"), HasSubstr("411 Length Required"));
  EXPECT_THAT(post(1, "Content-Encoding: gzip\r\nContent-Length: 20\r\n"), HasSubstr("415 Unsupported Media Type"));
  EXPECT_THAT(post(1, "Content-Length: 2000000\r\nConnection: close\r\n"), HasSubstr("413 "));
  EXPECT_THAT(post(9, "Content-Length: 500000\r\n"), HasSubstr("401 Unauthorized"));  // which is not waited for
}

TEST_F(Server, RangesAreIgnored) {
  start({});
  std::string ranges = "0-";
  for (int i = 0; i < 1000; ++i) ranges += ",0-";
  const std::string got =
      read_until(send_get("/v1/openapi.json", 1, "Connection: close\r\nRange: bytes=" + ranges + "\r\n"), "[never]");
  EXPECT_THAT(got, HasSubstr("200 OK"));
  EXPECT_LT(got.size(), openapi_document().size() + 2000);
}

TEST_F(Server, ClientsThatWaitLeaveRoomForOthers) {
  start({.threads = 8});
  Client by = client(1);
  ASSERT_TRUE(by.post("/v1/leases", {{"token", token_number(7)}, {"gpus", 4}})->ok());
  ASSERT_TRUE(by.post("/v1/leases", {{"token", token_number(8)}, {"wait", true}})->ok());
  std::vector<Fd> waiting;
  for (int i = 0; i < 20; ++i) waiting.push_back(send_get("/v1/leases/2?wait=30", 1, "Connection: close\r\n"));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(client(2).get("/v1/status")->ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

// Each sends a byte of its head or its body now and then, and others are served meanwhile.
TEST_F(Server, ClientsThatDripTakeNoThread) {
  start({.threads = 2, .request_timeout = 30s});
  std::vector<Fd> drips;
  for (int i = 0; i < 60; ++i) {
    drips.push_back(i % 2 == 0 ? send_bytes("GET /v1/status HTTP/1.1\r\nX: ")
                               : send("POST /v1/leases", 1, "Content-Length: 20000\r\n"));
    if (i % 2 != 0) more_bytes(drips.back(), "{");
  }
  Client by = client(1);
  Client agent = client(2);
  for (int i = 0; i < 20; ++i) {
    for (const Fd& drip : drips) more_bytes(drip, " ");
    EXPECT_TRUE(by.get("/v1/status")->ok());
    EXPECT_TRUE(client(1).get("/v1/status")->ok());
    EXPECT_TRUE(agent.post("/v1/report", json_of(report_of("a", 4)))->ok());
  }
}

TEST_F(Server, AClientThatDripsForTooLongIsGivenUp) {
  start({.request_timeout = 1s});
  const Fd head = send_bytes("GET /v1/status HTTP/1.1\r\n");
  const Fd body = send("POST /v1/leases", 1, "Content-Length: 5000\r\n");
  const std::jthread drip([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const Fd* fd : {&head, &body}) ::send(fd->get(), "x", 1, MSG_NOSIGNAL);
      std::this_thread::sleep_for(20ms);
    }
  });
  EXPECT_THAT(read_until(head, "\r\n\r\n"), HasSubstr("408 Request Timeout"));
  EXPECT_THAT(read_until(body, "\r\n\r\n"), HasSubstr("408 Request Timeout"));
}

TEST_F(Server, ANewClientTakesThePlaceOfASilentOne) {
  start({.connections = 10});
  std::vector<Fd> silent;
  for (int i = 0; i < 30; ++i) silent.push_back(send_bytes(i % 2 == 0 ? "G" : "POST /v1/report HTTP/1.1\r\n"));
  EXPECT_TRUE(client(1).get("/v1/status")->ok());
  char byte = 0;
  EXPECT_LE(::recv(silent[0].get(), &byte, 1, 0), 0);  // without a word
}

// Streams, which have every other thread.
TEST_F(Server, AgentsReportWhateverOthersDo) {
  start({.threads = 2});
  const std::array streams = {open_stream(1), open_stream(1)};
  for (const Fd& stream : streams) read_until(stream, "event: status");
  const Fd waits = send_get("/v1/status", 1, "Connection: close\r\n");
  Client agent = client(2, 15s);
  for (int i = 0; i < 10; ++i) {
    const auto told = agent.post("/v1/report", json_of(report_of("a", 4)));
    ASSERT_TRUE(told && told->ok());
  }
  // It had no thread meanwhile, which shows that the streams had them all.
  char byte = 0;
  EXPECT_EQ(::recv(waits.get(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST_F(Server, RequestsMayComeInPartsOrTogether) {
  start({});
  const std::string get = fmt::format("GET /v1/me HTTP/1.1\r\nAuthorization: Bearer {}\r\n", token_number(1));
  const std::string two = read_until(send_bytes(get + "\r\n" + get + "Connection: close\r\n\r\n"), "[never]");
  EXPECT_NE(two.find("HTTP/1.1 200 OK"), two.rfind("HTTP/1.1 200 OK"));
  const std::string body = json_of(report_of("a", 4)).dump() + std::string(20000, ' ');
  const Fd slow =
      send("POST /v1/report", 2, fmt::format("Content-Length: {}\r\nExpect: 100-continue\r\n", body.size()));
  EXPECT_THAT(read_until(slow, "\r\n\r\n"), HasSubstr("100 Continue"));
  for (std::size_t at = 0; at < body.size(); at += 3000) {
    more_bytes(slow, body.substr(at, 3000));
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_THAT(read_until(slow, "\"end\""), HasSubstr("200 OK"));
}

// A long poll that waited for the grant may have lost its client: the next request shows that it is there.
TEST_F(Server, AGrantFromTheQueueIsClaimedByTheNextRequest) {
  start({});
  Client by = client(1);
  const auto unclaimed = [](const Json& lease) { return lease.value("unclaimed", false); };
  const auto release = [&](std::int64_t id) {
    EXPECT_TRUE(client(1).post(fmt::format("/v1/leases/{}/release", id), Json::object())->ok());
    const auto report = [](Pool& pool) {
      for (const HostReport& report : awaited_reports(pool.state())) EXPECT_TRUE(pool.report(report));
    };
    EXPECT_TRUE(queue_->change(report, [](Pool&) {}));
  };
  const auto wait_for_grant = [&](std::int64_t holder, const std::string& token) {
    const auto id =
        by.post("/v1/leases", {{"token", token}, {"wait", true}})->body.at("lease").at("id").get<std::int64_t>();
    std::jthread releases([&, holder] {
      std::this_thread::sleep_for(300ms);
      release(holder);
    });
    const Json lease = by.get(fmt::format("/v1/leases/{}?wait=20", id))->body.at("lease");
    EXPECT_EQ(lease.at("state"), "open");
    EXPECT_TRUE(unclaimed(lease));
    return id;
  };
  const auto all = [&](int number) {
    return by.post("/v1/leases", {{"token", token_number(number)}, {"gpus", 4}})
        ->body.at("lease")
        .at("id")
        .get<std::int64_t>();
  };
  const std::int64_t second = wait_for_grant(all(7), token_number(8));
  EXPECT_TRUE(unclaimed(client(2).get(fmt::format("/v1/leases/{}", second))->body.at("lease")));  // of another
  EXPECT_FALSE(unclaimed(by.get(fmt::format("/v1/leases/{}?wait=20", second))->body.at("lease")));
  release(second);
  const std::int64_t fourth = wait_for_grant(all(9), token_number(10));
  const Json list = by.get(fmt::format("/v1/leases?ids={}", fourth))->body.at("leases");
  ASSERT_EQ(list.size(), 1U);
  EXPECT_FALSE(unclaimed(list[0]));
  release(fourth);
  wait_for_grant(all(11), token_number(12));
  EXPECT_FALSE(unclaimed(by.post("/v1/leases", {{"token", token_number(12)}, {"wait", true}})->body.at("lease")));
}

TEST_F(Server, UsageAndBackupsWaitForNoPlan) {
  start({});
  Client by = client(1);
  ASSERT_TRUE(by.post("/v1/leases", {{"token", token_number(7)}})->ok());
  std::promise<void> go_on;
  std::promise<void> is_busy;
  std::jthread plan([&] {
    queue_->read([&](Pool&) {
      is_busy.set_value();
      go_on.get_future().wait();
    });
  });
  is_busy.get_future().wait();
  const auto usage = client(1, 10s).get("/v1/usage");
  const auto refused = client(1, 10s).post("/v1/backup", {{"path", scratch_.file("copy.db")}});
  const auto backup = client(2, 10s).post("/v1/backup", {{"path", scratch_.file("copy.db")}});
  const auto unknown = client(9, 10s).get("/v1/usage");
  go_on.set_value();
  ASSERT_TRUE(usage);
  EXPECT_TRUE(usage->ok());
  EXPECT_EQ(usage->body.at("usage").at(0).at("user"), "ann");
  EXPECT_EQ(refused->status, 403);
  EXPECT_EQ(unknown->status, 401);
  EXPECT_TRUE(backup->ok());
  EXPECT_EQ(open_pool(scratch_.file("copy.db")).state().leases.size(), 1U);
}

TEST_F(Server, AReportThatIsRefusedKeepsBackNoOther) {
  start({});
  for (const int number : {3, 4})
    ASSERT_TRUE(
        client(2)
            .post("/v1/users",
                  {{"name", fmt::format("agent{}", number)}, {"role", "agent"}, {"token", token_number(number)}})
            ->ok());
  ASSERT_TRUE(client(4).post("/v1/report", json_of(report_of("taken", 1)))->ok());
  HostReporter reporter(client(3));
  std::vector<HostReport> reports = {report_of("taken", 1), report_of("b", 2), report_of("c", 1)};
  reports[1].gpus[0].uuid = "vsphere:b:1";
  for (const bool is_first : {true, false}) {
    const auto round = reporter.send(reports);
    ASSERT_TRUE(round) << round.error().message();
    EXPECT_THAT(round->refused, ::testing::ElementsAre("taken"));
    EXPECT_EQ(round->orders.size(), 2U);
    EXPECT_EQ(round->news.size(), is_first ? 1U : 0U) << "it is told once";
    if (is_first) {
      EXPECT_THAT(round->news.at(0), HasSubstr("the report of taken is refused: host taken is reported by"));
    }
  }
  queue_->read([](Pool& pool) { EXPECT_TRUE(pool.state().hosts.at("c").online); });
  ASSERT_TRUE(client(2).post("/v1/users/remove", {{"name", "agent4"}})->ok());
  EXPECT_TRUE(reporter.send(reports)->refused.empty());
  EXPECT_EQ(HostReporter(client(1)).send(reports)->not_allowed->status, 403);
  server_.reset();
  EXPECT_EQ(reporter.send(reports).error().code(), Code::kUnavailable);
}

// Its driver lists no process: what else it shows decides, and that once for all who ask.
TEST_F(Server, StatusTellsTheUseOfEachGpu) {
  start({});
  HostReport report = report_of("a", 4);
  report.activity[1] = {.utilisation = 99, .memory_used = 15ULL << 30};
  report.activity[2] = {.utilisation = 99, .memory_used = 15ULL << 30, .processes_known = false};
  ASSERT_TRUE(client(2).post("/v1/report", json_of(report))->ok());
  ASSERT_TRUE(client(1).post("/v1/leases", {{"token", token_number(7)}, {"exact", {"GPU-a0"}}})->ok());
  const auto uses = [&] {
    std::vector<std::string> all;
    const Json status = client(1).get("/v1/status")->body;
    for (const Json& gpu : status.at("gpus")) all.push_back(gpu.value("use", "not told"));
    return all;
  };
  EXPECT_THAT(uses(), ::testing::ElementsAre("leased", "unleased", "unleased", "free"));
  report.gpus.pop_back();
  report.activity.pop_back();
  ASSERT_TRUE(client(2).post("/v1/report", json_of(report))->ok());
  EXPECT_THAT(uses(), ::testing::ElementsAre("leased", "unleased", "unleased", "offline"));
  // What it shows until the next report may be of the holder that has left.
  report.activity[0].processes = {{.pid = 7, .user = "ann"}};
  ASSERT_TRUE(client(2).post("/v1/report", json_of(report))->ok());
  ASSERT_TRUE(client(1).post("/v1/leases/1/release", {{"token", token_number(7)}})->ok());
  EXPECT_EQ(uses().at(0), "free");
  ASSERT_TRUE(client(2).post("/v1/report", json_of(report))->ok());
  EXPECT_EQ(uses().at(0), "unleased");
}

// An agent that sees neither processes nor work of one of its GPUs.
TEST_F(Server, WhetherALeaseIsIdleIsLeftOutWhereItIsNotKnown) {
  start({});
  ASSERT_TRUE(
      client(1).post("/v1/leases", {{"token", token_number(7)}, {"gpus", 2}, {"exact", {"GPU-a0", "GPU-a1"}}})->ok());
  const auto idle = [&](const GpuActivity& first, const GpuActivity& second) {
    HostReport report = report_of("a", 4);
    report.activity[0] = first;
    report.activity[1] = second;
    EXPECT_TRUE(client(2).post("/v1/report", json_of(report))->ok());
    return client(1).get("/v1/leases/1")->body.at("lease").value("idle", "not told");
  };
  const GpuActivity silent{.utilisation = std::nullopt, .processes_known = false};
  EXPECT_EQ(idle({}, {}), "busy");
  EXPECT_EQ(idle(silent, silent), "not told");
  EXPECT_EQ(idle(silent, {}), "not told");
  EXPECT_EQ(idle(silent, {.utilisation = 90}), "busy") << "one of them is at work";
  EXPECT_EQ(idle(silent, {.utilisation = std::nullopt, .processes = {{.pid = 7, .user = "ann"}}}), "busy");
  const Json gpu = client(1).get("/v1/status")->body.at("gpus").at(0);
  EXPECT_FALSE(gpu.contains("utilisation"));
}

// They stand in the messages of others' terminals.
TEST_F(Server, TextsThatHideCharactersAreRefusedAndShown) {
  start({});
  for (const char* const name : {"type", "host", "vm", "purpose"}) {
    const auto reply = client(1).post("/v1/leases", {{"token", token_number(7)}, {name, "a\u202eb"}});
    EXPECT_EQ(reply->status, 400);
    EXPECT_THAT(reply->message(), HasSubstr(fmt::format("{}: it has characters that are hidden", name)));
  }
  ASSERT_TRUE(client(1).post("/v1/leases", {{"token", token_number(7)}})->ok());
  for (const char* const verb : {"exempt", "revoke"})
    EXPECT_THAT(client(2).post(fmt::format("/v1/leases/1/{}", verb), {{"why", "a\u202eb"}})->message(),
                HasSubstr("why: it has characters that are hidden"));
  EXPECT_THAT(client(2).post("/v1/teams", {{"name", "a\u202eb"}})->message(), HasSubstr("\"a\uFFFDb\" cannot be"));
  EXPECT_EQ(client(2).post("/v1/hosts/forget", {{"name", "a\u202eb"}})->message(), "there is no host a\uFFFDb");
}

TEST_F(Server, MakingAUserMayBeSentTwiceAndChangesWhatItTells) {
  start({});
  Client admin = client(2);
  ASSERT_TRUE(admin.post("/v1/teams", {{"name", "x"}})->ok());
  const Json bob{{"name", "bob"}, {"team", "x"}, {"role", "lead"}, {"max_gpus", 3}, {"token", token_number(3)}};
  for (int i = 0; i < 2; ++i) EXPECT_EQ(admin.post("/v1/users", bob)->body, (Json{{"token", token_number(3)}}));
  EXPECT_EQ(admin.post("/v1/users", {{"name", "bob"}, {"max_priority", 2}})->body, Json::object());
  const Json me = client(3).get("/v1/me")->body;
  EXPECT_EQ(me.at("team"), "x");
  EXPECT_EQ(me.at("role"), "lead");
  EXPECT_EQ(me.at("max_gpus"), 3);
  EXPECT_EQ(me.at("max_priority"), 2);
  EXPECT_EQ(admin.post("/v1/users", {{"name", "eve"}, {"token", token_number(3)}})->message(),
            "token: another user has it");
  EXPECT_EQ(admin.post("/v1/users", {{"name", "bob"}, {"new_token", true}, {"token", token_number(4)}})->body,
            (Json{{"token", token_number(4)}}));
  EXPECT_EQ(client(3).get("/v1/me")->status, 401);
}

TEST_F(Server, TextsOfPeopleAreLimited) {
  start({});
  Client admin = client(2);
  ASSERT_TRUE(client(1).post("/v1/leases", {{"token", token_number(7)}})->ok());
  for (const char* const verb : {"exempt", "revoke"}) {
    const std::string path = fmt::format("/v1/leases/1/{}", verb);
    const auto refused = admin.post(path, {{"why", std::string(201, 'x')}});
    EXPECT_EQ(refused->status, 400);
    EXPECT_THAT(refused->message(), HasSubstr("why: not one line of at most 200 bytes"));
    EXPECT_TRUE(admin.post(path, {{"why", std::string(200, 'x')}})->ok());
  }
  const auto team = admin.post("/v1/teams", {{"name", std::string(256, 'x')}});
  EXPECT_EQ(team->status, 400);
  EXPECT_EQ(team->message(), "the name of a team is longer than 255 bytes");
  EXPECT_TRUE(admin.post("/v1/teams", {{"name", std::string(255, 'x')}})->ok());
}

TEST(Url, ATokenGoesInPlainTextToThisHostOnly) {
  for (const char* const url :
       {"http://127.0.0.1:7711", "http://localhost:1/", "http://[::1]:7711", "https://pool.lab"})
    EXPECT_TRUE(Client::create({.url = url})) << url;
  for (const char* const url :
       {"http://pool.lab", "http://127.0.0.1.lab", "http://127.0.0.1:1@lab", "http://10.0.0.1:1"})
    EXPECT_THAT(Client::create({.url = url}).error().message(), HasSubstr("could read the token")) << url;
}

TEST_F(Server, AWrongMethodIsTold) {
  start({});
  const auto reply = client(1).get("/v1/teams");
  EXPECT_EQ(reply->status, 405);
  EXPECT_EQ(reply->message(), "/v1/teams takes POST, not GET");
}

TEST_F(Server, MetricsTellOfGpusAndLeases) {
  start({});
  report(4, 50);
  Client by = client(1);
  ASSERT_TRUE(by.post("/v1/leases", {{"token", token_number(7)}, {"gpus", 3}})->ok());
  const std::string text = metrics();
  for (const char* const line : {"# TYPE xoe_pool_gpus gauge\n", "xoe_pool_gpus{use=\"leased\"} 3\n",
                                 "xoe_pool_gpus{use=\"free\"} 1\n", "xoe_pool_leases{state=\"open\"} 1\n",
                                 "xoe_pool_gpu_utilisation_ratio{gpu=\"GPU-a0\",host=\"a\",name=\"Tesla T4\"} 0.5\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

}  // namespace
}  // namespace xoe::pool::testing
