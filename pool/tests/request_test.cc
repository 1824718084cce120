// How the server reads the extent of a request, and how it limits their rate.
#include <gtest/gtest.h>

#include <chrono>

#include "pool/server/rate_limit.h"
#include "pool/server/request_extent.h"

namespace xoe::pool::testing {
namespace {

using namespace std::chrono_literals;

TEST(RequestExtent, IsReadFromTheHead) {
  const std::string head = "POST /v1/report HTTP/1.1\r\ncontent-LENGTH:  12 \r\nExpect: 100-Continue\r\n\r\n";
  for (std::size_t part = 0; part < head.size(); ++part) EXPECT_EQ(extent_of(head.substr(0, part)).head, 0U) << part;
  for (std::size_t searched = 0; searched < head.size(); ++searched) {
    const RequestExtent extent = extent_of(head + "{}", searched);
    EXPECT_EQ(extent.head, head.size()) << searched;
    EXPECT_EQ(extent.body, 12U);
    EXPECT_TRUE(extent.is_report);
    EXPECT_TRUE(extent.wants_continue);
  }
  EXPECT_EQ(extent_of("GET / HTTP/1.1\r\nContent-Length: 12\r\n\r\n").body, 0U);
  EXPECT_EQ(extent_of("POST / HTTP/1.1\r\nContent-Length: -12\r\n\r\n").body, 0U);
  EXPECT_EQ(extent_of("POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 12\r\n\r\n").body, 0U);
  EXPECT_FALSE(extent_of("POST /v1/reports HTTP/1.1\r\n\r\n").is_report);
  EXPECT_EQ(extent_of(std::string(kMaxHead, 'x')).head, kMaxHead);
  EXPECT_EQ(header_of(head, "content-length"), "12");
  EXPECT_EQ(header_of(head, "Length"), "");
}

TEST(RateLimit, ABucketFillsSteadily) {
  RateLimit limit(10);
  const RateLimit::Time start{};
  int taken = 0;
  while (limit.take("ann", start)) ++taken;
  EXPECT_EQ(taken, 20);
  EXPECT_FALSE(limit.would_take("ann", start));
  EXPECT_TRUE(limit.would_take("bob", start));
  EXPECT_TRUE(limit.take("bob", start));
  EXPECT_FALSE(limit.take("ann", start + 50ms));
  EXPECT_TRUE(limit.take("ann", start + 200ms));
  RateLimit none(0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(none.take("ann", start));
}

}  // namespace
}  // namespace xoe::pool::testing
