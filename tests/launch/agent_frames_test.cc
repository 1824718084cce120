#include "launch/agents/agent_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xoe::launch {
namespace {

AgentJob some_job() {
  return {.host = "nodeA",
          .first_host = "node0",
          .job = "j",
          .secret = std::string("s\0x", 3),
          .store = "tcp:10.0.0.1:4",
          .network_interface = "ib0",
          .backend = "gloo",
          .directory = "/data/a b",
          .command = {"prog", "", "\xff\n"},
          .env = {{"A", "1=2"}, {"B", ""}},
          .ranks = {{.rank = 3, .cross_rank = 1, .cross_size = 2}, {.rank = 9, .cross_rank = 0, .cross_size = 1}},
          .size = 12,
          .binding = Binding::kNuma,
          .by_socket = true,
          .bind_gpus = false,
          .restarts = true,
          .host_timeout = std::chrono::milliseconds(1500)};
}

TEST(AgentFrames, AJobSurvivesTheWay) {
  const AgentJob job = some_job();
  const AgentJob there = decode_job(encode(job)).value();
  EXPECT_EQ(there.first_host, job.first_host);
  EXPECT_EQ(there.secret, job.secret);
  EXPECT_EQ(there.directory, job.directory);
  EXPECT_EQ(there.command, job.command);
  EXPECT_EQ(there.env, job.env);
  ASSERT_EQ(there.ranks.size(), 2U);
  EXPECT_EQ(there.ranks[0].rank, 3);
  EXPECT_EQ(there.ranks[0].cross_size, 2);
  EXPECT_EQ(there.binding, Binding::kNuma);
  EXPECT_TRUE(there.by_socket);
  EXPECT_FALSE(there.bind_gpus);
  EXPECT_TRUE(there.restarts);
  EXPECT_EQ(there.host_timeout, job.host_timeout);
  EXPECT_EQ(encode(there), encode(job));
}

TEST(AgentFrames, NoPartOfAJobIsAJob) {
  const std::string text = encode(some_job());
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(decode_job(text.substr(0, size))) << size;
  EXPECT_FALSE(decode_job(text + "x"));
}

TEST(AgentFrames, ACommandSurvivesTheWay) {
  const std::vector<std::string> command{"ssh", "", "a b\xff"};
  const std::string text = remote::encode_texts(command);
  EXPECT_EQ(remote::decode_texts(text).value(), command);
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(remote::decode_texts(text.substr(0, size))) << size;
  EXPECT_FALSE(remote::decode_texts(text + "x"));
  EXPECT_FALSE(remote::decode_texts(remote::encode_texts({})));
}

TEST(AgentFrames, AnotherVersionIsStillNamed) {
  std::string hello =
      encode(remote::Hello{.version = "9.9", .hostname = "h", .launcher = "l", .addresses = {"a"}, .cores = 4});
  EXPECT_EQ(remote::decode_hello(hello).value().cores, 4);
  const auto longer = remote::decode_hello(hello + "new fields");
  ASSERT_TRUE(longer);
  EXPECT_EQ(longer->version, "9.9");
  EXPECT_EQ(longer->cores, 0);
}

TEST(AgentFrames, CutsAStreamAnywhere) {
  std::string stream(remote::kAgentGreeting);
  remote::append_frame(stream,
               {.kind = remote::Frame::Kind::kEnded, .rank = 7, .value = -1, .pid = 1 << 30, .time = 123, .text = "t"});
  remote::append_frame(stream, {.kind = remote::Frame::Kind::kAlive});
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    remote::FrameReader reader(true);
    int frames = 0;
    for (const std::string& part : {stream.substr(0, cut), stream.substr(cut)}) {
      reader.append(part);
      while (true) {
        const auto frame = reader.next();
        ASSERT_TRUE(frame) << cut;
        if (!*frame) break;
        if (++frames == 1) {
          EXPECT_EQ((*frame)->rank, 7);
          EXPECT_EQ((*frame)->value, -1);
          EXPECT_EQ((*frame)->pid, 1 << 30);
          EXPECT_EQ((*frame)->text, "t");
        }
      }
    }
    EXPECT_EQ(frames, 2) << cut;
  }
}

TEST(AgentFrames, SkipsWhatALoginShellSays) {
  remote::FrameReader reader(true);
  reader.append("Welcome!\n");
  EXPECT_FALSE(*reader.next());
  EXPECT_FALSE(reader.greeted());
  std::string rest(remote::kAgentGreeting);
  remote::append_frame(rest, {.kind = remote::Frame::Kind::kAlive});
  reader.append(rest);
  EXPECT_TRUE(*reader.next());
  EXPECT_EQ(reader.noise(), "Welcome!\n");
}

TEST(AgentFrames, BoundsWhatItKeeps) {
  remote::FrameReader talkative(true);
  talkative.append(std::string(remote::kMaxPreamble + 1, 'x'));
  EXPECT_FALSE(talkative.next());
  remote::FrameReader huge(false);
  huge.append("\xff\xff\xff\xff");
  EXPECT_FALSE(huge.next());
  remote::FrameReader small(false);
  small.append(std::string("\x01\0\0\0\x01", 5));
  EXPECT_FALSE(small.next());
  for (const int kind : {0, 15, 30, 63, 76, 255}) {
    remote::FrameReader unknown(false);
    std::string frame;
    remote::append_frame(frame, {.kind = static_cast<remote::Frame::Kind>(kind)});
    unknown.append(frame);
    EXPECT_FALSE(unknown.next()) << kind;
  }
}

}  // namespace
}  // namespace xoe::launch
