#include "remote/frame.h"

#include <utility>

#include "base/error.h"
#include "remote/fields.h"

namespace xoe::remote {
namespace {

constexpr std::size_t kHeader = 1 + 4 * sizeof(std::int64_t);

bool known(Frame::Kind kind) {
  using Kind = Frame::Kind;
  return kind == Kind::kAlive || (kind >= Kind::kPrepare && kind <= Kind::kRequest) ||
         (kind >= Kind::kHello && kind <= Kind::kAnswer);
}

}  // namespace

tl::unexpected<Error> malformed_message(std::string_view what) {
  return failure(Code::kInvalidArgument, "agent: malformed message: {}", what);
}

void append_frame(std::string& out, const Frame& frame) {
  append_number(out, kHeader + frame.text.size(), sizeof(std::uint32_t));
  out.push_back(static_cast<char>(frame.kind));
  for (const std::int64_t number : {frame.rank, frame.value, frame.pid, frame.time})
    append_number(out, static_cast<std::uint64_t>(number), sizeof number);
  out.append(frame.text);
}

Result<Frame> parse_frame(std::string_view body) {
  if (body.size() < kHeader) return malformed_message("too short");
  Frame frame{.kind = static_cast<Frame::Kind>(body[0]), .text = body.substr(kHeader)};
  if (!known(frame.kind)) return malformed_message("unknown kind");
  body.remove_prefix(1);
  for (std::int64_t* number : {&frame.rank, &frame.value, &frame.pid, &frame.time}) {
    *number = static_cast<std::int64_t>(number_at(body, sizeof *number));
    body.remove_prefix(sizeof *number);
  }
  return frame;
}

std::string encode(const Hello& hello) {
  FieldWriter fields;
  fields.text(hello.version);
  fields.text(hello.hostname);
  fields.text(hello.launcher);
  fields.texts(hello.addresses);
  fields.number(hello.cores);
  return std::move(fields).take();
}

Result<Hello> decode_hello(std::string_view text) {
  FieldReader fields(text);
  Hello hello;
  hello.version = fields.text();
  if (!fields.good()) return malformed_message("hello without a version");
  hello.hostname = fields.text();
  hello.launcher = fields.text();
  hello.addresses = fields.texts();
  hello.cores = fields.number<int>(0, 1 << 20);
  if (!fields.good() || !fields.empty()) return Hello{.version = std::move(hello.version)};
  return hello;
}

std::string encode_texts(const std::vector<std::string>& texts) {
  FieldWriter fields;
  fields.texts(texts);
  return std::move(fields).take();
}

Result<std::vector<std::string>> decode_texts(std::string_view text) {
  FieldReader fields(text);
  auto texts = fields.texts();
  if (!fields.good() || !fields.empty() || texts.empty()) return malformed_message("texts");
  return texts;
}

void FrameReader::append(std::string_view bytes) {
  if (read_ > 0) buffer_.erase(0, std::exchange(read_, 0));
  buffer_.append(bytes);
}

Status FrameReader::look_for_greeting() {
  const auto at = buffer_.find(kAgentGreeting);
  if (at != std::string::npos) {
    preamble_ = buffer_.substr(0, at);
    buffer_.erase(0, at + kAgentGreeting.size());
    greeted_ = true;
  } else {
    preamble_ = buffer_.substr(0, kMaxPreamble);
    if (buffer_.size() > kMaxPreamble) return malformed_message("no greeting in the first 64 KiB");
  }
  return {};
}

Result<std::optional<Frame>> FrameReader::next() {
  if (!greeted_) XOE_TRY(look_for_greeting());
  const std::string_view rest = std::string_view(buffer_).substr(read_);
  if (!greeted_ || rest.size() < sizeof(std::uint32_t)) return std::optional<Frame>();
  const std::size_t length = number_at(rest, sizeof(std::uint32_t));
  if (length > kMaxFrame) return malformed_message("length");
  if (rest.size() - sizeof(std::uint32_t) < length) return std::optional<Frame>();
  read_ += sizeof(std::uint32_t) + length;
  XOE_ASSIGN(const Frame frame, parse_frame(rest.substr(sizeof(std::uint32_t), length)));
  return std::optional(frame);
}

}  // namespace xoe::remote
