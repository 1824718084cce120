// The store's wire format (docs/formats is not needed: both ends are always of one build). A frame is a 32-bit length
// in host order and that many bytes of body; a body is one byte of kind and its fields.
//   hello: kMagic, secret          set: 16-bit key length, key, value          get: key
//   value: bytes                   fail: one byte of Code, message
// Each request gets one reply, in order. Over TCP the greeting is another (proof.h), and no secret is sent:
//   knock: kMagic, nonce           challenge: nonce, proof                     proof: proof
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/proof.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

inline constexpr std::string_view kStoreMagic = "xoe-store-2\n";
inline constexpr std::size_t kMaxKey = 256;
inline constexpr std::size_t kMaxValue = std::size_t{1} << 20;
inline constexpr std::size_t kMaxSecret = 256;
inline constexpr std::size_t kMaxFrame = kMaxValue + kMaxKey + 64;

enum class FrameKind : std::uint8_t {
  kHello = 1,
  kSet = 2,
  kGet = 3,
  kKnock = 4,
  kProof = 5,
  kValue = 16,
  kFail = 17,
  kChallenge = 18
};

// One parsed body; the views point into the frame.
struct Frame {
  FrameKind kind = FrameKind::kHello;
  std::string_view key = {};
  std::string_view value = {};  // hello: the secret; knock: the nonce; fail: the message
  Code code = Code::kInternal;  // fail
};

// Each appends one whole frame to `out`.
void append_hello(std::string& out, std::string_view secret);
void append_set(std::string& out, std::string_view key, std::string_view value);
void append_get(std::string& out, std::string_view key);
void append_value(std::string& out, std::string_view value);
void append_fail(std::string& out, Code code, std::string_view message);
void append_knock(std::string& out, std::string_view nonce);
void append_challenge(std::string& out, std::string_view nonce_and_proof);
void append_proof(std::string& out, std::string_view proof);

// `invalid_argument` for anything that the functions above would not write.
Result<Frame> parse_body(std::string_view body);

// Cuts a stream of bytes into frames.
class FrameReader {
 public:
  void append(std::string_view bytes);
  // The next body, valid until append() is called; nullopt when more bytes are needed; `invalid_argument` for a length
  // beyond kMaxFrame, after which the stream is of no use.
  Result<std::optional<std::string_view>> next();
  // Bytes of a frame that is not complete yet.
  std::size_t partial() const noexcept { return buffer_.size() - read_; }

 private:
  std::string buffer_;
  std::size_t read_ = 0;
};

// Takes a time that depends on the length of `b` only.
bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept;

}  // namespace xoe::bootstrap
