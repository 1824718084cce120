#include "trace/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "trace/foreign.h"
#include "trace/line_reader.h"
#include "trace/names.h"

namespace xoe::trace {
namespace {

using nlohmann::json;

constexpr std::string_view kForeignHeaderEnd = R"("traceEvents":[)";
constexpr std::string_view kClosing = "]}";
constexpr std::int64_t kWallLimit = 2'500'000'000'000'000'000;

// How deep brackets go, without building anything.
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

// The header line of a file of Xoe, or false.
bool read_header(std::string_view line, TraceInfo& info) {
  if (!line.ends_with(kForeignHeaderEnd) || depth_of(line) > 8) return false;
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
  info.merged = data.contains("merged");
  info.clock = clock_of(data);
  return true;
}

class OurReader {
 public:
  OurReader(LineReader& lines, TraceInfo& info, const TraceSink& sink, const TraceLimits& limits)
      : lines_(lines), info_(info), events_(info, sink, limits), limits_(limits) {}

  // From behind the header.
  Status read() {
    LineReader::Line line;
    std::string trouble;  // with the line before, which only the end may have
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
  // Into parsed_; what is wrong, or "".
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

}  // namespace

Result<TraceInfo> read_trace(const std::string& path, const TraceSink& sink, const TraceLimits& limits) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts = {};
  if (!fd.valid() || ::fstat(fd.get(), &facts) != 0) {
    return failure(Code::kUnavailable, "cannot open {}: {}", path, errno_text(errno));
  }
  if (!S_ISREG(facts.st_mode)) return failure(Code::kUnavailable, "{} is not a file", path);
  TraceInfo info;
  info.path = path;
  LineReader lines(fd.get(), path, limits.line_bytes);
  LineReader::Line first;
  XOE_ASSIGN(const bool any, lines.next(first));
  if (!any) return failure(Code::kDataLoss, "{} is empty", path);
  if (!first.too_long && first.whole && read_header(first.text, info)) {
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
