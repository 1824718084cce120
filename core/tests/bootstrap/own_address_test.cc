// Which interface the hosts reach each other through.
#include "core/bootstrap/own_address.h"

#include <gmock/gmock.h>

namespace xoe::bootstrap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<Interface> kHost{{"lo", "127.0.0.1", true},
                                   {"eth0", "192.168.3.17", false},
                                   {"ib0", "10.1.2.3", false},
                                   {"eth0", "fd00:1::17", false},
                                   {"eth0.5", "10.128.9.9", false}};

TEST(Interfaces, WithoutAWishTheFirstThatIsNoLoopback) {
  EXPECT_EQ(choose_address(kHost, "").value(), "192.168.3.17");
  EXPECT_EQ(choose_address({{"lo", "127.0.0.1", true}, {"e", "fd00::2", false}}, "").value(), "fd00::2");
  EXPECT_EQ(choose_address({{"lo", "::1", true}, {"lo", "127.0.0.1", true}}, "").value(), "127.0.0.1");
}

TEST(Interfaces, BridgesOfContainersAreTheLastChoice) {
  const Interface loopback{"lo", "127.0.0.1", true};
  const Interface docker{"docker0", "172.17.0.1", false};
  EXPECT_EQ(choose_address({loopback, docker, {"eth0", "fd00::2", false}}, "").value(), "fd00::2");
  EXPECT_EQ(choose_address({loopback, docker}, "").value(), "172.17.0.1");
}

TEST(Interfaces, ByNameOrNetworkInTheWishesOrder) {
  EXPECT_EQ(choose_address(kHost, "ib0").value(), "10.1.2.3");
  EXPECT_EQ(choose_address(kHost, "eth0.5").value(), "10.128.9.9");
  EXPECT_EQ(choose_address(kHost, "10.0.0.0/8").value(), "10.1.2.3");
  EXPECT_EQ(choose_address(kHost, "10.128.0.0/9").value(), "10.128.9.9");
  EXPECT_EQ(choose_address(kHost, "ib9,fd00::/8,ib0").value(), "fd00:1::17");
  EXPECT_EQ(choose_address(kHost, "192.168.3.17").value(), "192.168.3.17");
  EXPECT_EQ(choose_address(kHost, "0.0.0.0/0").value(), "127.0.0.1");
}

TEST(Interfaces, ErrorsListWhatThereIs) {
  for (const char* wish : {"ib7", "172.16.0.0/12,ib7", "fe00::/8"}) {
    const auto chosen = choose_address(kHost, wish);
    ASSERT_FALSE(chosen) << wish;
    EXPECT_EQ(chosen.error().code(), Code::kUnavailable);
    EXPECT_THAT(chosen.error().message(), AllOf(HasSubstr(wish), HasSubstr("lo 127.0.0.1, eth0 192.168.3.17, ib0")));
  }
  for (const char* wish : {"10.0.0.0/33", "10.0.0/8", "10.0.0.0/x", "ib0,,eth0", "10.0.0.0/"}) {
    const auto chosen = choose_address(kHost, std::string("ib7,") + wish);
    if (std::string_view(wish).starts_with("ib0")) continue;
    ASSERT_FALSE(chosen) << wish;
    EXPECT_EQ(chosen.error().code(), Code::kInvalidArgument) << chosen.error().message();
    EXPECT_THAT(chosen.error().message(), HasSubstr("10.0.0.0/8"));
  }
}

TEST(Interfaces, AnAddressIsOfThisHost) {
  EXPECT_TRUE(check_address("127.0.0.1", kHost));
  EXPECT_EQ(check_address("here", kHost).error().code(), Code::kInvalidArgument);
  const Status other = check_address("192.0.2.1", kHost);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Code::kUnavailable);
  EXPECT_THAT(other.error().message(), AllOf(HasSubstr("192.0.2.1"), HasSubstr("this host has lo 127.0.0.1")));
}

TEST(Interfaces, ThisHostHasALoopback) {
  const auto found = local_interfaces();
  ASSERT_TRUE(found);
  EXPECT_THAT(*found, ::testing::Contains(::testing::Field(&Interface::loopback, true)));
}

}  // namespace
}  // namespace xoe::bootstrap
