// The mesh of hosts in virtual time: how long members wait for each other, and when they give one up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <thread>

#include "core/bootstrap/host_mesh.h"
#include "core/bootstrap/socket_address.h"
#include "core/testing/sim/simulated_case.h"

namespace xoe::bootstrap {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

// The addresses of two members on two hosts, and what the first one sees of the other, in memory that both have.
struct Shared {
  std::array<std::string, 2> addresses = {};
  bool connected = false;
  std::string lost;
  bool silent = false;
  sim::Time lost_at = 0;
};
Shared* const shared = new Shared;

int take_part(int self, const char* address) {
  const Exchange exchange = [self](std::string mine) -> Result<std::vector<std::string>> {
    shared->addresses[static_cast<std::size_t>(self)] = std::move(mine);
    while (shared->addresses[0].empty() || shared->addresses[1].empty()) std::this_thread::sleep_for(1ms);
    return std::vector<std::string>{shared->addresses[0], shared->addresses[1]};
  };
  MeshEvents events{.message = [](HostMesh&, int, const std::string&) {},
                    .lost =
                        [self](int, bool silent, const std::string& why) {
                          if (self != 0) return;
                          shared->lost = why;
                          shared->silent = silent;
                          shared->lost_at = sim::now();
                        }};
  const MeshOptions options{.connection = {.address = address, .secret = "s"}};
  const auto made = HostMesh::connect(self, 2, exchange, options, Clock::now() + 10s, std::move(events));
  if (!made) return 1;
  shared->connected = shared->connected || self == 0;
  while (true) std::this_thread::sleep_for(1000s);
}

// The case does this to the other member, and expects this loss.
void lose(const std::function<void(const sim::Host& other, pid_t pid, const sim::Host& one)>& fault, bool silent) {
  sim::simulate_case([&] {
    sim::add_program("one", [](int, char**) { return take_part(0, "10.0.0.1"); });
    sim::add_program("other", [](int, char**) { return take_part(1, "10.0.0.2"); });
    const sim::Host a = sim::add_host("a", "10.0.0.1"), b = sim::add_host("b", "10.0.0.2");
    const pid_t one = a.start({"/sim/one"}), other = b.start({"/sim/other"});
    sim::sleep_for(3600 * sim::kSecond);  // nothing is said meanwhile
    EXPECT_TRUE(shared->connected);
    EXPECT_EQ(shared->lost, "");
    const sim::Time at = sim::now();
    fault(b, other, a);
    sim::sleep_for(20 * sim::kSecond);
    EXPECT_THAT(shared->lost, HasSubstr(silent ? "nothing was heard from it for 1" : "closed"));
    EXPECT_EQ(shared->silent, silent);
    EXPECT_LT(shared->lost_at - at, silent ? 13 * sim::kSecond : sim::kSecond);
    EXPECT_GT(shared->lost_at - at, silent ? 7 * sim::kSecond : 0);
    EXPECT_FALSE(sim::facts_of(one).ended);
  });
}

TEST(SimulatedMesh, AMemberThatIsKilledIsMissedAtOnce) {
  lose([](const sim::Host&, pid_t other, const sim::Host&) { sim::signal_process(other, SIGKILL); }, false);
}

TEST(SimulatedMesh, AMemberThatIsStoppedIsMissedAfterTheSilence) {
  lose([](const sim::Host&, pid_t other, const sim::Host&) { sim::signal_process(other, SIGSTOP); }, true);
}

TEST(SimulatedMesh, AHostThatIsSwitchedOffIsMissedAfterTheSilence) {
  lose([](const sim::Host& b, pid_t, const sim::Host&) { b.switch_off(); }, true);
}

TEST(SimulatedMesh, ALinkThatIsCutInOneDirectionIsNoticed) {
  lose([](const sim::Host& b, pid_t, const sim::Host& a) { sim::cut_link(b, a, true); }, true);
}

// Two threads of a program.
TEST(SimulatedMesh, AWrongSecretIsRefusedOnBothSides) {
  sim::in_virtual_time([] {
    std::array<std::string, 2> addresses, errors;
    std::vector<std::jthread> members;
    for (const std::size_t self : {0U, 1U})
      members.emplace_back([&, self] {
        const Exchange exchange = [&, self](std::string mine) -> Result<std::vector<std::string>> {
          addresses[self] = std::move(mine);
          while (addresses[0].empty() || addresses[1].empty()) std::this_thread::sleep_for(1ms);
          return std::vector<std::string>{addresses[0], addresses[1]};
        };
        const MeshOptions options{.connection = {.address = "127.0.0.1", .secret = self == 0 ? "right" : "wrong"}};
        const auto made = HostMesh::connect(
            static_cast<int>(self), 2, exchange, options, Clock::now() + 60s,
            {.message = [](HostMesh&, int, const std::string&) {}, .lost = [](int, bool, const std::string&) {}});
        errors[self] = made ? "" : made.error().message();
      });
    members.clear();
    EXPECT_THAT(errors[1], HasSubstr("secret"));
    EXPECT_THAT(errors[0], HasSubstr("did not connect"));
  });
}

TEST(SimulatedHandshake, MembersThatWillNotComeAreNotWaitedFor) {
  sim::in_virtual_time([] {
    int checks = 0;
    const auto exchange = [](const std::string& mine) -> Result<std::vector<std::string>> {
      return std::vector<std::string>{mine, ""};
    };
    const ConnectOptions options{.address = "127.0.0.1", .secret = "s", .check = [&]() -> Status {
                                   return ++checks < 5 ? Status() : failure(Code::kUnavailable, "another version");
                                 }};
    const auto begun = Clock::now();
    const auto made = connect_members(0, 2, exchange, options, begun + 600s);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), Code::kUnavailable);
    EXPECT_EQ(checks, 5);
    EXPECT_LT(Clock::now() - begun, 7s) << "it asks each second";
  });
}

// An address at which no process listens any more.
std::string gone_address() {
  const Fd listener = listen_at(SocketAddress::tcp("127.0.0.1", 0).value()).value();
  return SocketAddress::of(listener.get()).text();
}

// The last member waits for none: it connects to the others, one of which may have gone since it told its address.
TEST(SimulatedHandshake, AMemberThatConnectsToOneThatIsGoneIsToldSoToo) {
  sim::in_virtual_time([] {
    const std::string gone = gone_address();
    const ConnectOptions options{.address = "127.0.0.1", .secret = "s", .check = []() -> Status {
                                   return failure(Code::kUnavailable, "another version");
                                 }};
    const auto exchange = [&](const std::string& mine) -> Result<std::vector<std::string>> {
      return std::vector{gone, mine};
    };
    const auto begun = Clock::now();
    const auto made = connect_members(1, 2, exchange, options, begun + 600s);
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().message(), HasSubstr("another version"));
    EXPECT_LT(Clock::now() - begun, 3s);
  });
}

// Those that are there have a shorter time to connect.
TEST(SimulatedHandshake, AMemberThatIsThereAndCannotBeReachedIsTimedOut) {
  sim::in_virtual_time([] {
    const std::string gone = gone_address();
    const ConnectOptions options{.address = "127.0.0.1", .secret = "s", .limit = 30s, .name = [](int member) {
                                   return "rank " + std::to_string(member + 7);
                                 }};
    const auto exchange = [&](const std::string& mine) -> Result<std::vector<std::string>> {
      return std::vector{gone, mine};
    };
    const auto begun = Clock::now();
    const auto made = connect_members(1, 2, exchange, options, begun + 600s);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), Code::kTimeout);
    EXPECT_THAT(made.error().message(), HasSubstr("cannot connect to rank 7"));
    EXPECT_LT(Clock::now() - begun, 31s);
  });
}

}  // namespace
}  // namespace xoe::bootstrap
