// The store's wire format, which has no document of its own in docs/formats: both ends are always of one build. A frame
// (base/bytes.h) has as its body one byte of kind and the fields:
//   hello: kStoreMagic, secret     set: 16-bit key length, key, value          get, remove: key
//   value: bytes                   fail: one byte of Code, message
// Each request gets one reply, in order. Over TCP no secret is sent; the two ends prove that they know it (proof.h):
//   client hello: kStoreMagic, nonce           challenge: nonce, proof         proof: proof
// and all that follows is sealed (sealed_stream.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/bytes.h"
#include "core/bootstrap/proof.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

inline constexpr std::string_view kStoreMagic = "xoe-store-5\n";
inline constexpr std::size_t kMaxKey = 256;
inline constexpr std::size_t kMaxValue = std::size_t{1} << 20;
inline constexpr std::size_t kMaxSecret = 256;
inline constexpr std::size_t kMaxFrame = kMaxValue + kMaxKey + 64;

enum class FrameKind : std::uint8_t {
  kHello = 1,
  kSet = 2,
  kGet = 3,
  kClientHello = 4,
  kProof = 5,
  kRemove = 6,
  kValue = 16,
  kFail = 17,
  kChallenge = 18
};

// One parsed body; the views point into the frame.
struct Frame {
  FrameKind kind = FrameKind::kHello;
  std::string_view key = {};
  std::string_view value = {};  // hello: the secret; client hello: the nonce; fail: the message
  Code code = Code::kInternal;  // fail
};

// Each appends one whole frame to `out`.
void append_hello(std::string& out, std::string_view secret);
void append_set(std::string& out, std::string_view key, std::string_view value);
void append_get(std::string& out, std::string_view key);
void append_remove(std::string& out, std::string_view key);
void append_value(std::string& out, std::string_view value);
void append_fail(std::string& out, Code code, std::string_view message);
void append_client_hello(std::string& out, std::string_view nonce);
void append_challenge(std::string& out, std::string_view nonce_and_proof);
void append_proof(std::string& out, std::string_view proof);

// `invalid_argument` for anything that the functions above would not write.
Result<Frame> parse_body(std::string_view body);

// The body of the next frame, valid until the stream is appended to; nullopt when more bytes are needed.
// `invalid_argument` for an impossible length, after which the stream is of no use.
Result<std::optional<std::string_view>> next_body(FrameBuffer& stream);

}  // namespace xoe::bootstrap
