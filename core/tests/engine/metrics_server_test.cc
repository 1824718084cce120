#include "core/engine/telemetry/metrics_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xoe::engine {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Fd connect_to(int port, const char* host = "127.0.0.1") {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, host, &address.sin_addr);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return {};
  return fd;
}

// All that comes back; "" if the connection was closed without a word.
std::string read_all(const Fd& fd) {
  std::string all;
  char block[4096];
  for (ssize_t got; (got = ::recv(fd.get(), block, sizeof(block), 0)) > 0;)
    all.append(block, static_cast<std::size_t>(got));
  return all;
}

std::string ask(int port, const std::string& request) {
  const Fd fd = connect_to(port);
  EXPECT_TRUE(fd.valid());
  EXPECT_EQ(::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  return read_all(fd);
}

// It waits longer for a slow client than any test does.
std::unique_ptr<MetricsServer> serve(std::string text) {
  auto server = MetricsServer::start(
      0, [text] { return text; }, std::chrono::hours(1));
  EXPECT_TRUE(server);
  return server ? std::move(*server) : nullptr;
}

TEST(MetricsServer, AnswersAGet) {
  const auto server = serve("xoe_stalled 0\n");
  ASSERT_GT(server->port(), 0);
  const std::string answer = ask(server->port(), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("text/plain; version=0.0.4"),
                            HasSubstr("Content-Length: 14\r\n"), EndsWith("\r\n\r\nxoe_stalled 0\n")));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(server->port(), "GET /metrics HTTP/1.1\r\n\r\n"), answer);
}

TEST(MetricsServer, SendsMuch) {
  const std::string text(8 << 20, 'x');
  const auto server = serve(text);
  EXPECT_THAT(ask(server->port(), "GET /metrics?all=1 HTTP/1.0\r\n\r\n"), EndsWith("\r\n\r\n" + text));
}

// A web page may send its readers' browsers here under a name of its own (DNS rebinding), and would read the answer.
TEST(MetricsServer, AnswersToItsOwnNameOnly) {
  const auto server = serve("text");
  const auto answer_to = [&](const std::string& headers) {
    return ask(server->port(), "GET /metrics HTTP/1.1\r\n" + headers + "\r\n");
  };
  const std::string port = std::to_string(server->port());
  for (const std::string& host : std::vector<std::string>{"localhost", "LOCALHOST:" + port, "127.0.0.1:" + port})
    EXPECT_THAT(answer_to("Accept: */*\r\nhost:  " + host + " \r\n"), StartsWith("HTTP/1.1 200 "));
  for (const std::string& host :
       std::vector<std::string>{"evil.example:" + port, "localhost.evil.example", "127.0.0.1.evil.example", ""})
    EXPECT_THAT(answer_to("Host: " + host + "\r\n"), StartsWith("HTTP/1.1 421 ")) << host;
  EXPECT_THAT(answer_to("Host: localhost\r\nHost: evil.example\r\n"), StartsWith("HTTP/1.1 421 "));
}

TEST(MetricsServer, RefusesAllElse) {
  const auto server = serve("text");
  const int port = server->port();
  EXPECT_THAT(ask(port, "GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask(port, "GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask(port, "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET\r\n")));
  EXPECT_THAT(ask(port, "HEAD /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(ask(port, "\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(port, "GET /metrics\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(port, std::string("\0\xff \x01 \r\n\r\n", 9)), StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(ask(port, std::string(10000, 'x')), "");
  EXPECT_THAT(ask(port, "GET /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST(MetricsServer, ListensOnLoopbackOnly) {
  const auto server = serve("text");
  EXPECT_FALSE(connect_to(server->port(), "127.0.0.2").valid());
}

TEST(MetricsServer, NamesAPortThatIsTaken) {
  const auto server = serve("text");
  const auto second = MetricsServer::start(server->port(), [] { return std::string(); });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable);
  EXPECT_THAT(second.error().message(), AllOf(HasSubstr("127.0.0.1:" + std::to_string(server->port())),
                                              HasSubstr("in use"), HasSubstr("XOE_METRICS_PORT")));
  EXPECT_EQ(MetricsServer::start(65536, [] { return std::string(); }).error().code(), Code::kInvalidArgument);
}

TEST(MetricsServer, PortIsFreeAgainAfterTheEnd) {
  auto server = serve("text");
  const int port = server->port();
  (void)ask(port, "GET /metrics HTTP/1.1\r\n\r\n");
  server.reset();
  EXPECT_FALSE(connect_to(port).valid());
  EXPECT_TRUE(MetricsServer::start(port, [] { return std::string(); }));
}

TEST(MetricsServer, AClientThatSaysNothingKeepsNobodyWaiting) {
  auto server = serve("text");
  const Fd silent = connect_to(server->port());
  const Fd another = connect_to(server->port());
  ::send(another.get(), "GET /me", 7, MSG_NOSIGNAL);
  server.reset();
}

TEST(MetricsServer, LeavesAClientThatSaysNothingForTheNext) {
  const auto server = MetricsServer::start(
      0, [] { return std::string("text"); }, std::chrono::milliseconds(50));
  ASSERT_TRUE(server);
  const Fd silent = connect_to((*server)->port());
  EXPECT_EQ(read_all(silent), "");
}

TEST(MetricsServer, AClientThatLeavesDoesNoHarm) {
  const std::string text(8 << 20, 'x');
  const auto server = serve(text);
  for (int i = 0; i < 5; ++i) {
    const Fd fd = connect_to(server->port());
    ::send(fd.get(), "GET /metrics HTTP/1.1\r\n\r\n", 25, MSG_NOSIGNAL);
  }
  EXPECT_THAT(ask(server->port(), "GET /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST(MetricsServer, ATextThatThrowsIsAnError) {
  const auto server = MetricsServer::start(0, []() -> std::string { throw std::runtime_error("no"); });
  ASSERT_TRUE(server);
  EXPECT_THAT(ask((*server)->port(), "GET /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 500 "));
}

TEST(MetricsServer, AForkedProcessMayDestroyItsCopy) {
  auto server = serve("text");
  const pid_t child = ::fork();
  if (child == 0) {
    server.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(ask(server->port(), "GET /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace xoe::engine
