#include "core/bootstrap/store_protocol.h"

#include "core/base/error.h"

namespace xoe::bootstrap {
namespace {

void append_frame(std::string& out, FrameKind kind, std::string_view fields, std::string_view more = {}) {
  append_little(out, static_cast<std::uint32_t>(1 + fields.size() + more.size()));
  append_little(out, static_cast<std::uint8_t>(kind));
  out.append(fields).append(more);
}

tl::unexpected<Error> malformed(std::string_view what) {
  return failure(Code::kInvalidArgument, "store: malformed message: {}", what);
}

Result<Frame> parse_set(std::string_view fields) {
  ByteReader reader(fields);
  const std::string_view key = reader.text<std::uint16_t>();
  if (key.empty() || key.size() > kMaxKey) return malformed("key size");
  if (reader.left() > kMaxValue) return malformed("value size");
  return Frame{.kind = FrameKind::kSet, .key = key, .value = reader.raw(reader.left())};
}

Result<Frame> parse_fail(std::string_view fields) {
  if (fields.empty()) return malformed("fail without a code");
  const auto code = static_cast<std::uint8_t>(fields[0]);
  if (code > static_cast<std::uint8_t>(Code::kInternal)) return malformed("unknown code");
  return Frame{.kind = FrameKind::kFail, .value = fields.substr(1), .code = static_cast<Code>(code)};
}

}  // namespace

void append_hello(std::string& out, std::string_view secret) {
  append_frame(out, FrameKind::kHello, kStoreMagic, secret);
}

void append_set(std::string& out, std::string_view key, std::string_view value) {
  ByteWriter fields;
  fields.text<std::uint16_t>(key);
  append_frame(out, FrameKind::kSet, fields.bytes(), value);
}

void append_get(std::string& out, std::string_view key) { append_frame(out, FrameKind::kGet, key); }

void append_remove(std::string& out, std::string_view key) { append_frame(out, FrameKind::kRemove, key); }

void append_value(std::string& out, std::string_view value) { append_frame(out, FrameKind::kValue, value); }

void append_fail(std::string& out, Code code, std::string_view message) {
  const char byte = static_cast<char>(code);
  append_frame(out, FrameKind::kFail, {&byte, 1}, message);
}

void append_client_hello(std::string& out, std::string_view nonce) {
  append_frame(out, FrameKind::kClientHello, kStoreMagic, nonce);
}

void append_challenge(std::string& out, std::string_view nonce_and_proof) {
  append_frame(out, FrameKind::kChallenge, nonce_and_proof);
}

void append_proof(std::string& out, std::string_view proof) { append_frame(out, FrameKind::kProof, proof); }

Result<Frame> parse_body(std::string_view body) {
  if (body.empty()) return malformed("empty");
  const auto kind = static_cast<FrameKind>(body[0]);
  const std::string_view fields = body.substr(1);
  switch (kind) {
    case FrameKind::kHello:
      if (!fields.starts_with(kStoreMagic)) return malformed("not a greeting of this version of Xoe");
      if (fields.size() > kStoreMagic.size() + kMaxSecret) return malformed("secret size");
      return Frame{.kind = kind, .value = fields.substr(kStoreMagic.size())};
    case FrameKind::kClientHello:
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
    case FrameKind::kRemove:
      if (fields.empty() || fields.size() > kMaxKey) return malformed("key size");
      return Frame{.kind = kind, .key = fields};
    case FrameKind::kValue:
      if (fields.size() > kMaxValue) return malformed("value size");
      return Frame{.kind = kind, .value = fields};
    case FrameKind::kFail: return parse_fail(fields);
  }
  return malformed("unknown kind");
}

Result<std::optional<std::string_view>> next_body(FrameBuffer& stream) {
  auto body = stream.next(kMaxFrame);
  if (body ? body->empty() : stream.next_length().value_or(0) > kMaxFrame) return malformed("length");
  return body;
}

}  // namespace xoe::bootstrap
