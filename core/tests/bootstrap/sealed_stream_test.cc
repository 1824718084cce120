// Only the other end opens what one end sealed, whole and in order.
#include "core/bootstrap/sealed_stream.h"

#include <gtest/gtest.h>

#include <random>

namespace xoe::bootstrap {
namespace {

struct Ends {
  SessionKeys client = session_keys("secret", End::kClient, "hello", "nonce");
  SessionKeys server = session_keys("secret", End::kServer, "hello", "nonce");
};

std::string sealed_by(Sealer& sealer, std::string_view plain) {
  std::string out;
  sealer.seal(plain, out);
  return out;
}

TEST(SealedStream, CarriesBothDirectionsInPiecesOfAnySize) {
  const Ends ends;
  std::mt19937 random(3);
  for (const auto& [from, to] : {std::pair(ends.client, ends.server), std::pair(ends.server, ends.client)}) {
    Sealer sealer(from.send);
    Opener opener(to.receive);
    std::string sent, wire, got;
    for (const std::size_t bytes : {1UL, 0UL, 17UL, kMaxRecord, kMaxRecord + 1, 3 * kMaxRecord, 5UL}) {
      std::string part(bytes, '\0');
      for (char& byte : part) byte = static_cast<char>(random());
      sent += part;
      sealer.seal(part, wire);
    }
    for (std::size_t at = 0; at < wire.size();) {
      const std::size_t piece = std::min<std::size_t>(1 + random() % 9000, wire.size() - at);
      ASSERT_TRUE(opener.open(std::string_view(wire).substr(at, piece), got));
      at += piece;
    }
    EXPECT_EQ(got, sent);
  }
}

TEST(SealedStream, ShowsNothingOfWhatItCarries) {
  Sealer sealer(Ends().client.send);
  const std::string text(64, 'a');
  const std::string first = sealed_by(sealer, text), second = sealed_by(sealer, text);
  EXPECT_EQ(first.find("aaaa"), std::string::npos);
  EXPECT_NE(first, second) << "equal messages must not look equal";
}

TEST(SealedStream, AnyChangedByteIsNoticed) {
  const Ends ends;
  Sealer sealer(ends.client.send);
  const std::string wire = sealed_by(sealer, "grad");
  for (std::size_t i = 0; i < wire.size(); ++i) {
    std::string changed = wire;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    Opener opener(ends.server.receive);
    std::string got;
    // A length that grew waits for more bytes, and these do not help.
    const bool opened = opener.open(changed, got) && opener.open(std::string(kMaxRecord + 64, 'x'), got);
    EXPECT_FALSE(opened) << "byte " << i;
    EXPECT_EQ(got, "") << "byte " << i;
  }
}

TEST(SealedStream, RecordsThatAreRepeatedLeftOutOrSwappedDoNotOpen) {
  const Ends ends;
  Sealer sealer(ends.client.send);
  const std::string one = sealed_by(sealer, "one"), two = sealed_by(sealer, "two");
  for (const std::string& wire : {one + one, two, two + one}) {
    Opener opener(ends.server.receive);
    std::string got;
    const Status opened = opener.open(wire, got);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code(), Code::kDataLoss);
  }
}

TEST(SealedStream, NoOtherKeyOpens) {
  const Ends ends;
  Sealer sealer(ends.client.send);
  const std::string wire = sealed_by(sealer, "one");
  const SessionKeys others[] = {
      session_keys("another secret", End::kServer, "hello", "nonce"),
      session_keys("secret", End::kServer, "hello", "other"), session_keys("secret", End::kServer, "howdy", "nonce"),
      session_keys("secret", End::kServer, "hellon", "once"), ends.client};  // reflected to its sender
  for (const SessionKeys& keys : others) {
    Opener opener(keys.receive);
    std::string got;
    EXPECT_FALSE(opener.open(wire, got));
  }
}

}  // namespace
}  // namespace xoe::bootstrap
