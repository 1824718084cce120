// Plain sockets whose bytes are sealed on their way: what passes between the hosts, and what happens when it is
// changed.
#include "core/backend/gloo/sealed_relay.h"

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <random>

#include <gtest/gtest.h>

namespace xoe::gloo {
namespace {

using bootstrap::End;
using bootstrap::MemberConnection;

// One relay at each end. What passes between them goes through `carry`, or directly where there is none.
class Link {
 public:
  Link() {
    int left[2], right[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, left), 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, right), 0);
    wire_[0] = Fd(left[1]);
    wire_[1] = Fd(right[1]);
    ends_[0] = start(Fd(left[0]), End::kServer, 0);
    ends_[1] = start(Fd(right[0]), End::kClient, 1);
  }

  // The wire's ends: what relay `end` sent comes out of wire(end), and what is written there arrives.
  const Fd& wire(int end) const { return wire_[end]; }
  Fd& plain(int end) { return plain_[end]; }
  void leave(int end) { ends_[end].reset(); }
  bool changed(int end) const { return changed_[end]; }

  // Carries all that relay `from` sends to the other, until it is so many bytes.
  std::string carry(int from, std::size_t at_least) {
    std::string all;
    while (all.size() < at_least) {
      const std::string part = receive(wire_[from], 1);
      if (part.empty()) return all;
      EXPECT_EQ(::send(wire_[1 - from].get(), part.data(), part.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(part.size()));
      all += part;
    }
    return all;
  }

  // Ends carry().
  void cut() {
    for (const Fd& end : wire_) ::shutdown(end.get(), SHUT_RDWR);
  }

  // At least so many bytes; fewer: the end of the connection.
  static std::string receive(const Fd& from, std::size_t at_least) {
    std::string all;
    while (all.size() < at_least) {
      pollfd entry{.fd = from.get(), .events = POLLIN, .revents = 0};
      if (::poll(&entry, 1, 20'000) <= 0) {
        ADD_FAILURE() << "nothing came";
        return all;
      }
      char bytes[65536];
      const auto count = ::recv(from.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (count <= 0) return all;
      all.append(bytes, static_cast<std::size_t>(count));
    }
    return all;
  }

 private:
  std::unique_ptr<SealedRelay> start(Fd socket, End role, int end) {
    std::vector<MemberConnection> connections(2);  // the first is this member's own place
    connections[1] = {.socket = std::move(socket), .keys = bootstrap::session_keys("s", role, "hello", "nonce")};
    auto relay = SealedRelay::start(std::move(connections), [this, end](std::size_t connection) {
                   EXPECT_EQ(connection, 1U);
                   changed_[end] = true;
                 }).value();
    auto plain = relay->take_plain_ends();
    EXPECT_FALSE(plain[0].valid());
    plain_[end] = std::move(plain[1]);
    return relay;
  }

  std::atomic<bool> changed_[2] = {};
  std::unique_ptr<SealedRelay> ends_[2];
  Fd wire_[2], plain_[2];  // closed first
};

void send_all(const Fd& to, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    pollfd entry{.fd = to.get(), .events = POLLOUT, .revents = 0};
    if (count <= 0 && ::poll(&entry, 1, 20'000) <= 0) {
      ADD_FAILURE() << "nothing was taken";
      return;
    }
  }
}

TEST(SealedRelay, CarriesBytesThatNobodyBetweenCanRead) {
  Link link;
  const std::string text = "the loss is 0.25 and the patient has pneumonia";
  for (const int from : {0, 1}) {
    send_all(link.plain(from), text);
    const std::string seen = link.carry(from, text.size() + 20);
    EXPECT_EQ(seen.find("patient"), std::string::npos);
    EXPECT_EQ(Link::receive(link.plain(1 - from), text.size()), text);
  }
}

TEST(SealedRelay, CarriesMuchInBothDirectionsAtOnce) {
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  Link link;
  std::string sent[2];
  std::mt19937 random(5);
  for (std::string& all : sent) {
    all.resize(kBytes);
    for (std::size_t i = 0; i < kBytes; i += 4)
      std::snprintf(&all[i], 4, "%03u", static_cast<unsigned>(random() % 1000));
  }
  std::vector<std::jthread> carriers, ends;
  for (const int from : {0, 1}) {
    ends.emplace_back([&, from] { send_all(link.plain(from), sent[from]); });
    // How many bytes this makes depends on how large the records are, and that on how quickly the relay runs.
    carriers.emplace_back([&, from] { link.carry(from, std::string::npos); });
    ends.emplace_back([&, from] { EXPECT_TRUE(Link::receive(link.plain(1 - from), kBytes) == sent[from]); });
  }
  ends.clear();
  link.cut();
}

TEST(SealedRelay, AChangedByteEndsTheConnectionAndIsTold) {
  Link link;
  send_all(link.plain(0), "gradients");
  std::string wire = Link::receive(link.wire(0), 9 + 20);
  wire[10] = static_cast<char>(wire[10] ^ 4);
  send_all(link.wire(1), wire);
  EXPECT_EQ(Link::receive(link.plain(1), 1), "") << "nothing of it arrives";
  EXPECT_TRUE(link.changed(1));
  EXPECT_FALSE(link.changed(0));
}

TEST(SealedRelay, TheLastBytesArriveWhenOneEndLeaves) {
  Link link;
  send_all(link.plain(0), "goodbye");
  link.plain(0) = Fd();
  link.leave(0);
  link.carry(0, 7 + 20);
  EXPECT_EQ(Link::receive(link.plain(1), 7), "goodbye");
}

TEST(SealedRelay, TheEndOfTheConnectionPasses) {
  Link link;
  link.plain(0) = Fd();
  EXPECT_EQ(Link::receive(link.wire(0), 1), "");
  ::shutdown(link.wire(1).get(), SHUT_WR);
  EXPECT_EQ(Link::receive(link.plain(1), 1), "");
}

}  // namespace
}  // namespace xoe::gloo
