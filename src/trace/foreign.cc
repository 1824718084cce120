#include "trace/foreign.h"

#include <unistd.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace xoe::trace {
namespace {

using nlohmann::json;

constexpr double kEarliestUs = -1e14;  // as TraceSink says
constexpr double kLatestUs = 2e15;

// Nanoseconds of a number of microseconds.
std::optional<std::int64_t> time_of(const json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number()) return std::nullopt;
  const auto us = found->get<double>();
  if (!(us >= kEarliestUs && us <= kLatestUs)) return std::nullopt;
  // In two parts: since 1970 there are more nanoseconds than a double tells apart.
  const double whole = std::trunc(us);
  return static_cast<std::int64_t>(whole) * 1000 + std::llround((us - whole) * 1e3);
}

// Absent is 0.
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

// Feeds the parser and remembers how far it is.
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
  // Only ever compared with the end.
  bool operator==(const FileBytes& other) const {
    State* state = state_ != nullptr ? state_ : other.state_;
    if (state == nullptr) return true;
    state->need();
    return state->ended && (state_ == nullptr || other.state_ == nullptr);
  }

 private:
  State* state_;
};

// Takes the events as they are parsed and lets nothing else stay in memory.
class ForeignCollector {
 public:
  ForeignCollector(TraceInfo& info, const TraceSink& sink, const TraceLimits& limits, const FileBytes::State& place)
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
    // Bare numbers and the like in the list.
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

}  // namespace

Status TraceEventSource::take(json& event, std::uint64_t offset) {
  if (++count_ > limits_.events) {
    return failure(Code::kResourceExhausted, "{}: byte {}: more than {} events", info_.path, offset, limits_.events);
  }
  if (const auto known = understood(event)) return sink_(*known);
  if (info_.ignored++ == 0) info_.first_ignored_at = offset;
  return {};
}

Status read_foreign_trace(int fd, TraceInfo& info, const TraceSink& sink, const TraceLimits& limits) {
  FileBytes::State place = {.fd = fd, .block = {}};
  ForeignCollector collector(info, sink, limits, place);
  try {
    [[maybe_unused]] const json rest = json::parse(
        FileBytes(&place), FileBytes(nullptr),
        [&](int depth, json::parse_event_t what, json& value) { return collector.on_parse(depth, what, value); });
  } catch (const json::exception&) {
    XOE_TRY(collector.status());
    if (place.error != 0) {
      return failure(Code::kUnavailable, "{}: cannot read: {}", info.path, errno_text(place.error));
    }
    if (!place.ended || collector.count() == 0) {
      return failure(Code::kDataLoss, "{}: byte {}: no trace in JSON", info.path, place.offset);
    }
    info.cut_at = place.offset;
    return {};
  }
  XOE_TRY(collector.status());
  if (collector.count() == 0) return failure(Code::kDataLoss, "{} has no events: it is no trace", info.path);
  return {};
}

}  // namespace xoe::trace
