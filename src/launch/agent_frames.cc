#include "launch/agent_frames.h"

#include "base/error.h"
#include "launch/field_text.h"

namespace xoe::launch {
namespace {

constexpr std::size_t kHeader = 1 + 4 * sizeof(std::int64_t);

tl::unexpected<Error> malformed(std::string_view what) {
  return failure(Code::kInvalidArgument, "agent: malformed message: {}", what);
}

bool known(AgentFrame::Kind kind) {
  using Kind = AgentFrame::Kind;
  return kind == Kind::kAlive || (kind >= Kind::kPrepare && kind <= Kind::kSettled) ||
         (kind >= Kind::kHello && kind <= Kind::kShellEnded);
}

}  // namespace

void append_frame(std::string& out, const AgentFrame& frame) {
  append_number(out, kHeader + frame.text.size(), sizeof(std::uint32_t));
  out.push_back(static_cast<char>(frame.kind));
  for (const std::int64_t number : {frame.rank, frame.value, frame.pid, frame.time})
    append_number(out, static_cast<std::uint64_t>(number), sizeof number);
  out.append(frame.text);
}

Result<AgentFrame> parse_frame(std::string_view body) {
  if (body.size() < kHeader) return malformed("too short");
  AgentFrame frame{.kind = static_cast<AgentFrame::Kind>(body[0]), .text = body.substr(kHeader)};
  if (!known(frame.kind)) return malformed("unknown kind");
  body.remove_prefix(1);
  for (std::int64_t* number : {&frame.rank, &frame.value, &frame.pid, &frame.time}) {
    *number = static_cast<std::int64_t>(number_at(body, sizeof *number));
    body.remove_prefix(sizeof *number);
  }
  return frame;
}

std::string encode(const AgentHello& hello) {
  FieldWriter fields;
  fields.text(hello.version);
  fields.text(hello.hostname);
  fields.text(hello.launcher);
  fields.texts(hello.addresses);
  fields.number(hello.cores);
  return std::move(fields).take();
}

Result<AgentHello> decode_hello(std::string_view text) {
  FieldReader fields(text);
  AgentHello hello;
  hello.version = fields.text();
  if (!fields.good()) return malformed("hello without a version");
  hello.hostname = fields.text();
  hello.launcher = fields.text();
  hello.addresses = fields.texts();
  hello.cores = fields.number<int>(0, 1 << 20);
  if (!fields.good() || !fields.empty()) return AgentHello{.version = std::move(hello.version)};
  return hello;
}

std::string encode(const AgentJob& job) {
  FieldWriter fields;
  for (const std::string* text : {&job.host, &job.first_host, &job.job, &job.secret, &job.store, &job.network_interface,
                                  &job.backend, &job.directory})
    fields.text(*text);
  fields.texts(job.command);
  fields.number(static_cast<std::int64_t>(job.env.size()));
  for (const auto& [name, value] : job.env) {
    fields.text(name);
    fields.text(value);
  }
  fields.number(static_cast<std::int64_t>(job.ranks.size()));
  for (const AgentRank& rank : job.ranks) {
    fields.number(rank.rank);
    fields.number(rank.cross_rank);
    fields.number(rank.cross_size);
  }
  fields.number(job.size);
  fields.number(static_cast<std::int64_t>(job.binding));
  fields.number(job.by_socket ? 1 : 0);
  fields.number(job.bind_gpus ? 1 : 0);
  fields.number(job.restarts ? 1 : 0);
  fields.number(job.host_timeout.count());
  return std::move(fields).take();
}

Result<AgentJob> decode_job(std::string_view text) {
  constexpr int kMostRanks = 1 << 20;
  FieldReader fields(text);
  AgentJob job;
  for (std::string* one : {&job.host, &job.first_host, &job.job, &job.secret, &job.store, &job.network_interface,
                           &job.backend, &job.directory})
    *one = fields.text();
  job.command = fields.texts();
  for (auto left = fields.number<std::size_t>(0, text.size()); left > 0 && fields.good(); --left) {
    std::string name = fields.text();
    job.env.emplace_back(std::move(name), fields.text());
  }
  for (auto left = fields.number<std::size_t>(0, text.size()); left > 0 && fields.good(); --left) {
    AgentRank& rank = job.ranks.emplace_back();
    rank.rank = fields.number<int>(0, kMostRanks);
    rank.cross_rank = fields.number<int>(0, kMostRanks);
    rank.cross_size = fields.number<int>(1, kMostRanks);
  }
  job.size = fields.number<int>(1, kMostRanks);
  job.binding = fields.number<Binding>(0, static_cast<std::int64_t>(Binding::kNuma));
  job.by_socket = fields.number<int>(0, 1) == 1;
  job.bind_gpus = fields.number<int>(0, 1) == 1;
  job.restarts = fields.number<int>(0, 1) == 1;
  job.host_timeout = std::chrono::nanoseconds(fields.number<std::int64_t>(1'000'000, 1'000'000'000'000'000));
  if (!fields.good() || !fields.empty()) return malformed("job");
  if (job.command.empty() || job.ranks.empty()) return malformed("job without a program or ranks");
  return job;
}

std::string encode_command(const std::vector<std::string>& command) {
  FieldWriter fields;
  fields.texts(command);
  return std::move(fields).take();
}

Result<std::vector<std::string>> decode_command(std::string_view text) {
  FieldReader fields(text);
  auto command = fields.texts();
  if (!fields.good() || !fields.empty() || command.empty()) return malformed("command");
  return command;
}

void AgentFrameReader::append(std::string_view bytes) {
  if (read_ > 0) buffer_.erase(0, std::exchange(read_, 0));
  buffer_.append(bytes);
}

Status AgentFrameReader::look_for_greeting() {
  const auto at = buffer_.find(kAgentGreeting);
  if (at != std::string::npos) {
    noise_ = buffer_.substr(0, at);
    buffer_.erase(0, at + kAgentGreeting.size());
    greeted_ = true;
  } else {
    noise_ = buffer_.substr(0, kMostNoise);
    if (buffer_.size() > kMostNoise) return malformed("no greeting in the first 64 KiB");
  }
  return {};
}

Result<std::optional<AgentFrame>> AgentFrameReader::next() {
  if (!greeted_) XOE_TRY(look_for_greeting());
  const std::string_view rest = std::string_view(buffer_).substr(read_);
  if (!greeted_ || rest.size() < sizeof(std::uint32_t)) return std::optional<AgentFrame>();
  const std::size_t length = number_at(rest, sizeof(std::uint32_t));
  if (length > kMaxAgentFrame) return malformed("length");
  if (rest.size() - sizeof(std::uint32_t) < length) return std::optional<AgentFrame>();
  read_ += sizeof(std::uint32_t) + length;
  XOE_ASSIGN(const AgentFrame frame, parse_frame(rest.substr(sizeof(std::uint32_t), length)));
  return std::optional(frame);
}

}  // namespace xoe::launch
