#include "launch/remote/frame.h"

#include <chrono>
#include <utility>

#include "core/base/error.h"

namespace xoe::remote {
namespace {

using Kind = Frame::Kind;

bool known(Kind kind) {
  return kind == Kind::kAlive || (kind >= Kind::kPrepare && kind <= Kind::kWorld) ||
         (kind >= Kind::kHello && kind <= Kind::kDeparting);
}

}  // namespace

tl::unexpected<Error> malformed_message(std::string_view what) {
  return failure(Code::kInvalidArgument, "agent: malformed message: {}", what);
}

std::int64_t clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void append_frame(std::string& out, const Frame& frame) {
  ByteWriter body;
  body.fixed(static_cast<std::uint8_t>(frame.kind));
  for (const std::int64_t number : {frame.rank, frame.value, frame.pid, frame.time}) body.fixed(number);
  append_little(out, static_cast<std::uint32_t>(body.bytes().size() + frame.text.size()));
  out.append(body.bytes()).append(frame.text);
}

Result<Frame> parse_frame(std::string_view body) {
  ByteReader fields(body);
  Frame frame{.kind = static_cast<Frame::Kind>(fields.fixed<std::uint8_t>())};
  for (std::int64_t* number : {&frame.rank, &frame.value, &frame.pid, &frame.time})
    *number = fields.fixed<std::int64_t>();
  if (!fields.ok()) return malformed_message("too short");
  if (!known(frame.kind)) return malformed_message("unknown kind");
  frame.text = fields.raw(fields.left());
  return frame;
}

void write_texts(ByteWriter& fields, std::span<const std::string> texts) {
  fields.fixed(static_cast<std::int64_t>(texts.size()));
  for (const std::string& text : texts) fields.text<std::uint32_t>(text);
}

std::string read_text(ByteReader& fields) { return std::string(fields.text<std::uint32_t>()); }

std::vector<std::string> read_texts(ByteReader& fields) {
  std::vector<std::string> texts;
  // Each text takes at least the bytes of its length, so no count makes this allocate more than was sent.
  for (auto left = fields.fixed<std::int64_t>(0, static_cast<std::int64_t>(fields.left())); left > 0 && fields.ok();
       --left)
    texts.push_back(read_text(fields));
  return texts;
}

std::string encode(const Hello& hello) {
  ByteWriter fields;
  for (const std::string* text : {&hello.version, &hello.hostname, &hello.launcher}) fields.text<std::uint32_t>(*text);
  write_texts(fields, hello.addresses);
  for (const int number : {hello.cores, hello.ranks}) fields.fixed(std::int64_t{number});
  return std::move(fields).take();
}

Result<Hello> decode_hello(std::string_view text) {
  ByteReader fields(text);
  Hello hello;
  hello.version = read_text(fields);
  if (!fields.ok()) return malformed_message("hello without a version");
  hello.hostname = read_text(fields);
  hello.launcher = read_text(fields);
  hello.addresses = read_texts(fields);
  for (int* number : {&hello.cores, &hello.ranks}) *number = static_cast<int>(fields.fixed<std::int64_t>(0, 1 << 20));
  if (!fields.at_end()) return Hello{.version = std::move(hello.version)};
  return hello;
}

std::string encode(const RankEnding& ending) {
  ByteWriter fields;
  fields.fixed(ending.ran);
  fields.fixed(static_cast<std::uint8_t>(ending.asked ? 1 : 0));
  return std::move(fields).take();
}

Result<RankEnding> decode_ending(std::string_view text) {
  ByteReader fields(text);
  RankEnding ending{.ran = fields.fixed<std::int64_t>()};
  ending.asked = fields.fixed<std::uint8_t>(0, 1) == 1;
  if (!fields.at_end()) return malformed_message("the end of a rank");
  return ending;
}

std::string encode_texts(const std::vector<std::string>& texts) {
  ByteWriter fields;
  write_texts(fields, texts);
  return std::move(fields).take();
}

Result<std::vector<std::string>> decode_texts(std::string_view text) {
  ByteReader fields(text);
  auto texts = read_texts(fields);
  if (!fields.at_end() || texts.empty()) return malformed_message("texts");
  return texts;
}

void FrameReader::append(std::string_view bytes) {
  if (greeted_)
    frames_.append(bytes);
  else
    unread_.append(bytes);
}

Status FrameReader::look_for_greeting() {
  const auto at = unread_.find(kAgentGreeting);
  preamble_ = unread_.substr(0, std::min(at, kMaxPreamble));
  if (at != std::string::npos) {
    frames_.append(std::string_view(unread_).substr(at + kAgentGreeting.size()));
    unread_.clear();
    greeted_ = true;
  } else if (unread_.size() > kMaxPreamble) {
    return malformed_message("no greeting in the first 64 KiB");
  }
  return {};
}

Result<std::optional<Frame>> FrameReader::next() {
  if (!greeted_) XOE_TRY(look_for_greeting());
  const auto body = frames_.next(kMaxFrame);
  if (!body) {
    if (frames_.next_length().value_or(0) > kMaxFrame) return malformed_message("length");
    return std::optional<Frame>();
  }
  XOE_ASSIGN(const Frame frame, parse_frame(*body));
  return std::optional(frame);
}

}  // namespace xoe::remote
