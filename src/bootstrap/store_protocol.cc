#include "bootstrap/store_protocol.h"

#include <cstring>

#include "base/error.h"

namespace xoe::bootstrap {
namespace {

void append_header(std::string& out, FrameKind kind, std::size_t fields) {
  const auto length = static_cast<std::uint32_t>(fields + 1);
  char bytes[sizeof length];
  std::memcpy(bytes, &length, sizeof length);
  out.append(bytes, sizeof bytes);
  out.push_back(static_cast<char>(kind));
}

tl::unexpected<Error> malformed(std::string_view what) {
  return failure(Code::kInvalidArgument, "store: malformed message: {}", what);
}

Result<Frame> parse_set(std::string_view fields) {
  std::uint16_t key_size = 0;
  if (fields.size() < sizeof key_size) return malformed("set without a key");
  std::memcpy(&key_size, fields.data(), sizeof key_size);
  fields.remove_prefix(sizeof key_size);
  if (key_size == 0 || key_size > kMaxKey || key_size > fields.size()) return malformed("key size");
  if (fields.size() - key_size > kMaxValue) return malformed("value size");
  return Frame{.kind = FrameKind::kSet, .key = fields.substr(0, key_size), .value = fields.substr(key_size)};
}

Result<Frame> parse_fail(std::string_view fields) {
  if (fields.empty()) return malformed("fail without a code");
  const auto code = static_cast<std::uint8_t>(fields[0]);
  if (code > static_cast<std::uint8_t>(Code::kInternal)) return malformed("unknown code");
  return Frame{.kind = FrameKind::kFail, .value = fields.substr(1), .code = static_cast<Code>(code)};
}

}  // namespace

void append_hello(std::string& out, std::string_view secret) {
  append_header(out, FrameKind::kHello, kStoreMagic.size() + secret.size());
  out.append(kStoreMagic).append(secret);
}

void append_set(std::string& out, std::string_view key, std::string_view value) {
  const auto key_size = static_cast<std::uint16_t>(key.size());
  char bytes[sizeof key_size];
  std::memcpy(bytes, &key_size, sizeof key_size);
  append_header(out, FrameKind::kSet, sizeof key_size + key.size() + value.size());
  out.append(bytes, sizeof bytes).append(key).append(value);
}

void append_get(std::string& out, std::string_view key) {
  append_header(out, FrameKind::kGet, key.size());
  out.append(key);
}

void append_value(std::string& out, std::string_view value) {
  append_header(out, FrameKind::kValue, value.size());
  out.append(value);
}

void append_fail(std::string& out, Code code, std::string_view message) {
  append_header(out, FrameKind::kFail, 1 + message.size());
  out.push_back(static_cast<char>(code));
  out.append(message);
}

void append_knock(std::string& out, std::string_view nonce) {
  append_header(out, FrameKind::kKnock, kStoreMagic.size() + nonce.size());
  out.append(kStoreMagic).append(nonce);
}

void append_challenge(std::string& out, std::string_view nonce_and_proof) {
  append_header(out, FrameKind::kChallenge, nonce_and_proof.size());
  out.append(nonce_and_proof);
}

void append_proof(std::string& out, std::string_view proof) {
  append_header(out, FrameKind::kProof, proof.size());
  out.append(proof);
}

Result<Frame> parse_body(std::string_view body) {
  if (body.empty()) return malformed("empty");
  const auto kind = static_cast<FrameKind>(body[0]);
  const std::string_view fields = body.substr(1);
  switch (kind) {
    case FrameKind::kHello:
      if (!fields.starts_with(kStoreMagic)) return malformed("not a greeting of this version of Xoe");
      if (fields.size() > kStoreMagic.size() + kMaxSecret) return malformed("secret size");
      return Frame{.kind = kind, .value = fields.substr(kStoreMagic.size())};
    case FrameKind::kKnock:
      if (!fields.starts_with(kStoreMagic)) return malformed("not a greeting of this version of Xoe");
      if (fields.size() != kStoreMagic.size() + kNonceBytes) return malformed("nonce size");
      return Frame{.kind = kind, .value = fields.substr(kStoreMagic.size())};
    case FrameKind::kProof:
      if (fields.size() != kProofBytes) return malformed("proof size");
      return Frame{.kind = kind, .value = fields};
    case FrameKind::kChallenge:
      if (fields.size() != kNonceBytes + kProofBytes) return malformed("challenge size");
      return Frame{.kind = kind, .value = fields};
    case FrameKind::kSet: return parse_set(fields);
    case FrameKind::kGet:
      if (fields.empty() || fields.size() > kMaxKey) return malformed("key size");
      return Frame{.kind = kind, .key = fields};
    case FrameKind::kValue:
      if (fields.size() > kMaxValue) return malformed("value size");
      return Frame{.kind = kind, .value = fields};
    case FrameKind::kFail: return parse_fail(fields);
  }
  return malformed("unknown kind");
}

void FrameReader::append(std::string_view bytes) {
  buffer_.erase(0, read_);
  read_ = 0;
  buffer_.append(bytes);
}

Result<std::optional<std::string_view>> FrameReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(read_);
  std::uint32_t length = 0;
  if (rest.size() < sizeof length) return std::optional<std::string_view>();
  std::memcpy(&length, rest.data(), sizeof length);
  if (length == 0 || length > kMaxFrame) return malformed("length");
  if (rest.size() - sizeof length < length) return std::optional<std::string_view>();
  read_ += sizeof length + length;
  return std::optional(rest.substr(sizeof length, length));
}

bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const char other = a.empty() ? '\0' : a[i % a.size()];
    difference |= static_cast<unsigned>(static_cast<unsigned char>(other) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

}  // namespace xoe::bootstrap
