#include "core/trace/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/text.h"
#include "core/trace/names.h"
#include "xoe/status.h"

namespace xoe::trace {
namespace {

// --- lines

constexpr std::size_t kBlock = std::size_t{1} << 18;

class LineReader {
 public:
  LineReader(int fd, std::string path, std::uint64_t line_limit)
      : fd_(fd), path_(std::move(path)), limit_(line_limit) {}

  struct Line {
    std::string_view text;     // without the newline; valid until the next call
    std::uint64_t offset = 0;  // of its first byte
    bool too_long = false;     // the text is only its start
    bool whole = true;         // ended by a newline
  };
  // False: the end.
  Result<bool> next(Line& line) {
    line = {.text = {}, .offset = offset_};
    std::size_t seen = at_;
    std::size_t newline = std::string::npos;
    while ((newline = buffer_.find('\n', seen)) == std::string::npos) {
      if (buffer_.size() - at_ > limit_) break;
      const std::size_t length = buffer_.size() - at_;
      XOE_ASSIGN(const bool more, fill());
      seen = at_ + length;
      if (more) continue;
      if (length == 0) return false;
      line.text = buffer_;
      line.whole = false;
      at_ = buffer_.size();
      offset_ += length;
      return true;
    }
    if (newline == std::string::npos || newline - at_ > limit_) {
      line.too_long = true;
      XOE_TRY(skip_line());
      return true;
    }
    line.text = std::string_view(buffer_).substr(at_, newline - at_);
    offset_ += newline + 1 - at_;
    at_ = newline + 1;
    return true;
  }
  std::uint64_t offset() const noexcept { return offset_; }

 private:
  // Appends to buffer_; false: the end.
  Result<bool> fill() {
    buffer_.erase(0, at_);
    at_ = 0;
    const std::size_t had = buffer_.size();
    buffer_.resize(had + kBlock);
    ssize_t got = -1;
    do {
      got = ::read(fd_, buffer_.data() + had, kBlock);
    } while (got < 0 && errno == EINTR);
    const int reason = errno;
    buffer_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0) return failure(Code::kUnavailable, "{}: cannot read: {}", path_, errno_text(reason));
    return got > 0;
  }
  // Skips everything up to and including the next newline.
  Status skip_line() {
    while (true) {
      const auto newline = buffer_.find('\n', at_);
      const std::size_t stop = newline == std::string::npos ? buffer_.size() : newline + 1;
      offset_ += stop - at_;
      at_ = stop;
      if (newline != std::string::npos) return {};
      XOE_ASSIGN(const bool more, fill());
      if (!more) return {};
    }
  }

  int fd_;
  std::string path_;
  std::uint64_t limit_;
  std::string buffer_;
  std::size_t at_ = 0;        // of the next line in buffer_
  std::uint64_t offset_ = 0;  // of the next line in the file
};

// --- traces of other programs

using nlohmann::json;

constexpr double kEarliestUs = -1e14;  // as TraceSink says
constexpr double kLatestUs = 2e15;

// Microseconds to nanoseconds.
std::optional<std::int64_t> time_of(const json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number()) return std::nullopt;
  const auto us = found->get<double>();
  if (!(us >= kEarliestUs && us <= kLatestUs)) return std::nullopt;
  // In two parts: nanoseconds since 1970 exceed the precision of a double.
  const double whole = std::trunc(us);
  return static_cast<std::int64_t>(whole) * 1000 + std::llround((us - whole) * 1e3);
}

// 0 where it is absent.
std::optional<std::int64_t> number_of(const json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end()) return 0;
  if (!found->is_number_integer()) return std::nullopt;
  const auto value = found->get<std::int64_t>();
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  return value;
}

std::optional<TraceEvent> understood(json& event) {
  if (!event.is_object()) return std::nullopt;
  const auto phase = event.find("ph");
  if (phase == event.end() || !phase->is_string()) return std::nullopt;
  const auto& letter = phase->get_ref<const std::string&>();
  const auto pid = number_of(event, "pid");
  const auto tid = number_of(event, "tid");
  if (letter.size() != 1 || !pid || !tid) return std::nullopt;
  TraceEvent result = {.phase = letter[0], .pid = *pid, .tid = *tid, .fields = &event};
  if (result.phase == 'M') return result;
  const auto start = time_of(event, "ts");
  const auto length = result.phase == 'X' ? time_of(event, "dur") : 0;
  if (!start || !length || *length < 0) return std::nullopt;
  result.start_ns = *start;
  result.length_ns = *length;
  return result;
}

// Checks events and passes them to the sink.
class TraceEventSource {
 public:
  TraceEventSource(TraceInfo& info, const TraceSink& sink, const TraceLimits& limits)
      : info_(info), sink_(sink), limits_(limits) {}

  // offset: position in the file, for messages.
  Status take(json& event, std::uint64_t offset) {
    if (++count_ > limits_.events) {
      return failure(Code::kResourceExhausted, "{}: byte {}: more than {} events", info_.path, offset, limits_.events);
    }
    if (const auto known = understood(event)) return sink_(*known);
    if (info_.ignored++ == 0) info_.first_ignored_at = offset;
    return {};
  }
  std::uint64_t count() const noexcept { return count_; }

 private:
  TraceInfo& info_;
  const TraceSink& sink_;
  const TraceLimits& limits_;
  std::uint64_t count_ = 0;
};

// Feeds the parser and counts the bytes that it has read.
class FileBytes {
 public:
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  struct State {
    int fd;
    std::string block;
    std::size_t at = 0;
    std::uint64_t offset = 0;
    int error = 0;
    bool ended = false;

    void need() {
      if (at < block.size() || ended) return;
      block.resize(std::size_t{1} << 18);
      const ssize_t got = ::pread(fd, block.data(), block.size(), static_cast<off_t>(offset));
      error = got < 0 ? errno : 0;
      ended = got <= 0;
      block.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
      at = 0;
    }
  };

  explicit FileBytes(State* state) : state_(state) {}
  reference operator*() const {
    state_->need();
    return state_->block[state_->at];
  }
  FileBytes& operator++() {
    ++state_->at;
    ++state_->offset;
    return *this;
  }
  // Only compared with the end.
  bool operator==(const FileBytes& other) const {
    State* state = state_ != nullptr ? state_ : other.state_;
    if (state == nullptr) return true;
    state->need();
    return state->ended && (state_ == nullptr || other.state_ == nullptr);
  }

 private:
  State* state_;
};

// Consumes events as they are parsed, so that none stay in memory.
class ForeignParser {
 public:
  ForeignParser(TraceInfo& info, const TraceSink& sink, const TraceLimits& limits, const FileBytes::State& place)
      : events_(info, sink, limits), limits_(limits), place_(place) {}

  bool on_parse(int depth, json::parse_event_t what, json& value) {
    using Event = json::parse_event_t;
    if (!status_ || depth > limits_.depth) return false;
    if (depth == 0 && (what == Event::object_start || what == Event::array_start)) {
      list_depth_ = what == Event::array_start ? 0 : 1;
      in_list_ = what == Event::array_start;
      return true;
    }
    if (depth == 1 && list_depth_ == 1 && what == Event::key) {
      in_list_ = value == "traceEvents";
      return in_list_;
    }
    if (what == Event::object_end && in_list_ && depth == list_depth_ + 1) {
      status_ = events_.take(value, place_.offset);
      return false;
    }
    // Bare numbers, strings and literals in the list.
    return !(what == Event::value && depth == list_depth_ + 1);
  }

  const Status& status() const { return status_; }
  std::uint64_t count() const { return events_.count(); }
  bool found_list() const { return list_depth_ == 0 || in_list_ || count() > 0; }

 private:
  TraceEventSource events_;
  const TraceLimits& limits_;
  const FileBytes::State& place_;
  Status status_;
  int list_depth_ = -1;
  bool in_list_ = false;
};

// {"traceEvents": [...]} or [...], event by event. Like Chrome's viewers, it accepts a list without its end.
Status read_foreign_trace(int fd, TraceInfo& info, const TraceSink& sink, const TraceLimits& limits) {
  FileBytes::State place = {.fd = fd, .block = {}};
  ForeignParser parser(info, sink, limits, place);
  try {
    [[maybe_unused]] const json rest = json::parse(
        FileBytes(&place), FileBytes(nullptr),
        [&](int depth, json::parse_event_t what, json& value) { return parser.on_parse(depth, what, value); });
  } catch (const json::exception&) {
    XOE_TRY(parser.status());
    if (place.error != 0) {
      return failure(Code::kUnavailable, "{}: cannot read: {}", info.path, errno_text(place.error));
    }
    if (!place.ended || parser.count() == 0) {
      return failure(Code::kDataLoss, "{}: byte {}: no trace in JSON", info.path, place.offset);
    }
    info.cut_at = place.offset;
    return {};
  }
  XOE_TRY(parser.status());
  if (parser.count() == 0) return failure(Code::kDataLoss, "{} has no events: it is no trace", info.path);
  return {};
}

constexpr std::string_view kHeaderLineEnd = R"("traceEvents":[)";
constexpr std::string_view kClosing = "]}";
constexpr std::int64_t kWallLimit = 2'500'000'000'000'000'000;

// The depth of nested brackets, without building a document.
int depth_of(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      i += c == '\\' ? 1 : 0;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

std::optional<std::int64_t> clock_number(const json& object, const char* key, std::int64_t limit = kClockLimitNs) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  std::optional<std::int64_t> value;
  if (found->is_string()) value = parse_integer(found->get_ref<const std::string&>());
  if (found->is_number_integer()) value = found->get<std::int64_t>();
  if (!value || *value > limit || *value < -limit) return std::nullopt;
  return value;
}

std::optional<TraceClock> clock_of(const json& object) {
  const auto offset = clock_number(object, "clock_offset_ns");
  const auto uncertainty = clock_number(object, "clock_uncertainty_ns");
  if (!offset) return std::nullopt;
  return TraceClock{*offset, uncertainty.value_or(0)};
}

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Parses the header line of a file of Xoe; false if it is none.
bool parse_header(std::string_view line, TraceInfo& info) {
  if (!line.ends_with(kHeaderLineEnd) || depth_of(line) > 8) return false;
  const json header = json::parse(std::string(line).append(kClosing), nullptr, /*allow_exceptions=*/false);
  if (!header.is_object() || !header.contains("otherData")) return false;
  const json& data = header["otherData"];
  if (!data.is_object() || text_of(data, "program") != "xoe") return false;
  const auto base = clock_number(data, "clock_base_ns");
  if (!base) return false;
  info.ours = true;
  info.base_ns = *base;
  info.wall_base_ns = clock_number(data, "wall_base_ns", kWallLimit);
  if (info.wall_base_ns && *info.wall_base_ns <= 0) info.wall_base_ns.reset();
  info.host = text_of(data, "host");
  info.boot_id = text_of(data, "boot_id");
  info.job = text_of(data, "job");
  info.merged = data.contains("merged");
  info.clock = clock_of(data);
  return true;
}

class OurReader {
 public:
  OurReader(LineReader& lines, TraceInfo& info, const TraceSink& sink, const TraceLimits& limits)
      : lines_(lines), info_(info), events_(info, sink, limits), limits_(limits) {}

  // Starts after the header.
  Status read() {
    LineReader::Line line;
    std::string trouble;  // of the previous line; only the last line may have any
    while (true) {
      XOE_ASSIGN(const bool more, lines_.next(line));
      std::string_view text = line.text;
      if (text.ends_with('\r')) text.remove_suffix(1);
      if (!more || (text == kClosing && line.whole)) {
        if (!more && !info_.cut_at) info_.cut_at = line.offset;
        return {};
      }
      if (!trouble.empty()) {
        return failure(Code::kDataLoss, "{}: byte {}: {}", info_.path, *info_.cut_at, trouble);
      }
      if (text.empty() && !line.too_long) continue;
      if (text.ends_with(',')) text.remove_suffix(1);
      trouble = line.too_long ? fmt::format("a line of more than {} bytes", limits_.line_bytes) : parse(text);
      if (!trouble.empty()) {
        info_.cut_at = line.offset;
        continue;
      }
      for (json& event : parsed_) XOE_TRY(take(event, line.offset));
    }
  }

 private:
  // Parses into parsed_; returns the problem, or "".
  std::string parse(std::string_view text) {
    if (depth_of(text) > limits_.depth) return fmt::format("more than {} brackets deep", limits_.depth);
    parsed_ = json::parse("[" + std::string(text) + "]", nullptr, /*allow_exceptions=*/false);
    return parsed_.is_array() ? "" : "no event in JSON";
  }

  Status take(json& event, std::uint64_t offset) {
    if (event.is_object() && event.value("ph", json()) == "M") {
      const auto name = text_of(event, "name");
      if (name == "end") return {};
      if (name == trace::kClockEvent && event.contains("args") && event["args"].is_object()) {
        if (const auto clock = clock_of(event["args"])) info_.clock = clock;
        return {};
      }
    }
    return events_.take(event, offset);
  }

  LineReader& lines_;
  TraceInfo& info_;
  TraceEventSource events_;
  const TraceLimits& limits_;
  json parsed_;
};

Result<Fd> open_trace(const std::string& path, struct stat& facts) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid() || ::fstat(fd.get(), &facts) != 0) {
    return failure(Code::kUnavailable, "cannot open {}: {}", path, errno_text(errno));
  }
  if (!S_ISREG(facts.st_mode)) return failure(Code::kUnavailable, "{} is not a file", path);
  return fd;
}

}  // namespace

Result<TraceInfo> read_trace_header(const std::string& path) {
  struct stat facts = {};
  XOE_ASSIGN(const Fd fd, open_trace(path, facts));
  TraceInfo info;
  info.path = path;
  LineReader lines(fd.get(), path, TraceLimits().line_bytes);
  LineReader::Line first;
  XOE_ASSIGN(const bool any, lines.next(first));
  if (any && !first.too_long && first.whole) static_cast<void>(parse_header(first.text, info));
  return info;
}

Result<TraceInfo> read_trace(const std::string& path, const TraceSink& sink, const TraceLimits& limits) {
  struct stat facts = {};
  XOE_ASSIGN(const Fd fd, open_trace(path, facts));
  TraceInfo info;
  info.path = path;
  LineReader lines(fd.get(), path, limits.line_bytes);
  LineReader::Line first;
  XOE_ASSIGN(const bool any, lines.next(first));
  if (!any) return failure(Code::kDataLoss, "{} is empty", path);
  if (!first.too_long && first.whole && parse_header(first.text, info)) {
    XOE_TRY(OurReader(lines, info, sink, limits).read());
    return info;
  }
  if (static_cast<std::uint64_t>(facts.st_size) > limits.foreign_bytes) {
    return failure(Code::kResourceExhausted, "{} is not a timeline of Xoe, and larger than {}, the most of others",
                   path, human_bytes(limits.foreign_bytes));
  }
  XOE_TRY(read_foreign_trace(fd.get(), info, sink, limits));
  return info;
}

}  // namespace xoe::trace
