// Programs that know no secret connect to every port of the members while these connect with each other.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <gmock/gmock.h>

#include "core/base/fd.h"
#include "core/bootstrap/proof.h"
#include "core/bootstrap/socket_address.h"
#include "core/tests/net/net_group.h"

namespace xoe::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The TCP ports on which this process listens.
std::vector<sockaddr_in> listeners() {
  std::vector<sockaddr_in> found;
  for (int fd = 0; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    sockaddr_in address = {};
    size = sizeof address;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 && address.sin_family == AF_INET)
      found.push_back(address);
  }
  return found;
}

struct Attack {
  const char* name;
  std::string bytes;  // what each connection sends
  int connections;    // of each port
  bool stays = true;  // the connections are kept
};

// Connects to all ports; the connections that stay.
std::vector<Fd> connect_to_all(const Attack& attack) {
  std::vector<Fd> open;
  for (const sockaddr_in& address : listeners()) {
    for (int i = 0; i < attack.connections; ++i) {
      Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      ::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
      pollfd entry{.fd = client.get(), .events = POLLOUT, .revents = 0};
      ::poll(&entry, 1, 100);
      (void)::send(client.get(), attack.bytes.data(), attack.bytes.size(), MSG_NOSIGNAL);
      if (attack.stays) open.push_back(std::move(client));
    }
  }
  return open;
}

// Sums of some sizes, as far as they are wrong.
std::string sums(net::Net& net, int member) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{300'000}}) {
    std::vector<float> data(count, static_cast<float>(member + 1));
    const Status status = net.run({.kind = CollectiveKind::kAllreduce,
                                   .dtype = DType::kFloat32,
                                   .in = data.data(),
                                   .out = data.data(),
                                   .in_count = count,
                                   .out_count = count},
                                  in(seconds(20)));
    if (!status) return status.error().to_string();
    if (data.front() != 6.0f || data.back() != 6.0f) return "a wrong sum";
  }
  return "";
}

class Attacks : public ::testing::TestWithParam<Attack> {};

TEST_P(Attacks, EndNoJob) {
  const Attack& attack = GetParam();
  NetProcesses group(3, sums, [&](const net::Exchange& exchange) {
    return [&attack, exchange](std::string mine) {
      static const auto before = connect_to_all(attack);  // until the process ends
      auto all = exchange(std::move(mine));
      static const auto after = connect_to_all(attack);
      return all;
    };
  });
  for (int member = 0; member < 3; ++member) EXPECT_EQ(group.wait(member), 0) << "member " << member;
}

std::string with_zeros(std::string text, std::size_t size) {
  text.resize(size);
  return text;
}

INSTANTIATE_TEST_SUITE_P(All, Attacks,
                         ::testing::Values(Attack{"Silent", "", 1}, Attack{"Gone", "", 1, false},
                                           Attack{"PairNumber", with_zeros("\1", 8), 1},  // of newer versions of Gloo
                                           Attack{"GlooMessage", with_zeros("\x30", 8) + with_zeros("\2", 40), 1},
                                           Attack{"Garbage", std::string(20'000, 'x'), 2, false},
                                           Attack{"HalfOpen", "xoe-me", 400},
                                           Attack{"NoProof", "xoe-mesh-3\n" + with_zeros("\1", 40), 5}),
                         [](const auto& attack) { return attack.param.name; });

// The address that a member was given leads to a program that answers as a member would, but for the proof.
TEST(Impostor, IsRefusedByName) {
  const Fd listener = bootstrap::listen_at(bootstrap::SocketAddress::tcp("127.0.0.1", 0).value()).value();
  const std::jthread impostor([&](const std::stop_token& stop) {
    Fd taken;
    while (!taken.valid() && !stop.stop_requested()) {
      pollfd entry{.fd = listener.get(), .events = POLLIN, .revents = 0};
      ::poll(&entry, 1, 20);
      taken = Fd(::accept(listener.get(), nullptr, nullptr));
    }
    const std::string answer(bootstrap::kNonceBytes + bootstrap::kProofBytes, 'x');
    (void)::send(taken.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  });
  const auto exchange = [&](std::string mine) -> Result<std::vector<std::string>> {
    return std::vector<std::string>{bootstrap::SocketAddress::of(listener.get()).text(), std::move(mine)};
  };
  const auto provider = open_gloo();
  const auto made = provider->connect(members_of(2, 1), exchange, in(seconds(10)));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(made.error().message(), AllOf(HasSubstr("rank 10"), HasSubstr("secret")));
}

}  // namespace
}  // namespace xoe::testing
