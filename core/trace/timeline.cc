#include "core/trace/timeline.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/trace/event_ring.h"
#include "core/trace/file.h"
#include "core/trace/interned_names.h"
#include "core/trace/names.h"
#include "core/trace/text.h"
#include "core/trace/thread_rings.h"

namespace xoe::trace {

// --- events as text

namespace {

// The lane under which viewers without rows for spans list them.
constexpr int kSpanLane = 0;

template <class... Args>
void add(std::string& lines, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(lines), format, std::forward<Args>(args)...);
}

void add_args(std::string& lines, const TimelineEvent& event, const TimelineNames& names) {
  char separator = '{';
  const auto next = [&](std::string_view key) {
    if (separator == '{') lines += R"(,"args":)";
    lines += std::exchange(separator, ',');
    lines.append("\"").append(key).append("\":");
  };
  for (std::size_t i = 0; i < event.keys.size(); ++i) {
    if (event.keys[i] == 0) continue;
    next(names.text(event.keys[i]));
    if (event.values[i] < 0) lines += '-';
    const auto value = static_cast<std::uint64_t>(event.values[i]);
    append_number(lines, event.values[i] < 0 ? -value : value);
  }
  if (event.note != 0) {
    next(trace::kNote);
    lines.append("\"").append(names.text(event.note)).append("\"");
  }
  if (separator == ',') lines += '}';
}

}  // namespace

class TimelineText {
 public:
  TimelineText(int rank, std::int64_t base_ns)
      : rank_(rank),
        base_ns_(base_ns),
        span_start_(fmt::format(R"({{"ph":"b","pid":{},"tid":{},"ts":)", rank, kSpanLane)),
        span_stop_(fmt::format(R"({{"ph":"e","pid":{},"tid":{},"ts":)", rank, kSpanLane)),
        // The rank is part of the id: ids are global to all processes of a trace.
        span_id_(fmt::format(R"(","id":"0x{:x})", rank + 1)) {}

  void add_event(std::string& lines, const TimelineEvent& event, const TimelineNames& names) const {
    const std::string& name = names.text(event.name);
    switch (event.kind) {
      case TimelineEvent::Kind::kBar:
        add_start(lines, "X", event.lane, event.start_ns);
        lines += R"(,"dur":)";
        append_us(lines, event.stop_ns - event.start_ns);
        lines.append(R"(,"name":")").append(name).append("\"");
        break;
      case TimelineEvent::Kind::kMark:
        add_start(lines, "i", event.lane, event.start_ns);
        add(lines, R"(,"s":"t","name":"{}")", name);
        break;
      case TimelineEvent::Kind::kSpan: return add_span(lines, event, names);
    }
    add_args(lines, event, names);
    lines += "},\n";
  }

  void add_lane(std::string& lines, int lane, std::string_view name, int order) const {
    add(lines, R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":")", rank_, lane);
    append_json_text(lines, name);
    lines += "\"}},\n";
    add(lines, R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}},)", rank_, lane,
        order);
    lines += '\n';
  }

  void add_process(std::string& lines, const TimelineOptions& options) const {
    std::string host;
    append_json_text(host, options.host);
    add(lines,
        R"--({{"ph":"M","name":"process_name","pid":{0},"tid":0,"args":{{"name":"rank {0} (host {1}, pid {2})"}}}},)--",
        rank_, host, ::getpid());
    lines += '\n';
    const std::string local = options.local_rank < 0 ? "" : fmt::format(R"(,"local_rank":{})", options.local_rank);
    const std::string shown = options.local_rank < 0 ? "" : fmt::format(", local rank {}", options.local_rank);
    add(lines, R"({{"ph":"M","name":"process_labels","pid":{0},"args":{{"labels":"host {1}{2}","host":"{1}"{3},)",
        rank_, host, shown, local);
    add(lines, R"("os_pid":{}}}}},)", ::getpid());
    lines += '\n';
    add(lines, R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}},)", rank_);
    lines += '\n';
  }

  void add_clock(std::string& lines, std::int64_t offset_ns, std::int64_t uncertainty_ns) const {
    add(lines, R"({{"ph":"M","name":"{}","pid":{},"args":{{"clock_offset_ns":{},"clock_uncertainty_ns":{}}}}},)",
        trace::kClockEvent, rank_, offset_ns, uncertainty_ns);
    lines += '\n';
  }

  void add_dropped(std::string& lines, std::uint64_t count, std::int64_t now_ns) const {
    add_start(lines, "i", kSpanLane, now_ns);
    add(lines, R"(,"s":"p","name":"{}","args":{{"count":{}}}}},)", trace::kDroppedEvent, count);
    lines += '\n';
  }

 private:
  // Most events are spans: their text is put together in one piece of memory.
  void add_span(std::string& lines, const TimelineEvent& event, const TimelineNames& names) const {
    constexpr std::size_t kFixed = 160;
    const std::string& category = names.text(static_cast<std::uint32_t>(event.lane));
    const std::string& name = names.text(event.name);
    const std::size_t before = lines.size();
    lines.resize(before + span_start_.size() + span_id_.size() + category.size() + name.size() + kFixed);
    char* at = put_us(put(lines.data() + before, span_start_), event.start_ns - base_ns_);
    const auto begin = static_cast<std::size_t>(at - lines.data());
    at = put(put(put(at, R"(,"cat":")"), category), span_id_);
    for (int shift = 44; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[event.id >> shift & 0xf];
    at = put(put(put(at, R"(","name":")"), name), "\"");
    const std::size_t length = static_cast<std::size_t>(at - lines.data()) - begin;
    lines.resize(begin + length);
    add_args(lines, event, names);
    // On one line, so that a cut cannot separate them.
    const std::size_t middle = lines.size();
    lines.resize(middle + span_stop_.size() + length + kFixed);
    at = put_us(put(put(lines.data() + middle, "},"), span_stop_), event.stop_ns - base_ns_);
    at = put(put(at, {lines.data() + begin, length}), "},\n");
    lines.resize(static_cast<std::size_t>(at - lines.data()));
  }
  static char* put(char* to, std::string_view text) noexcept { return std::copy(text.begin(), text.end(), to); }

  void add_start(std::string& lines, std::string_view phase, int lane, std::int64_t at_ns) const {
    lines.append(R"({"ph":")").append(phase).append(R"(","pid":)");
    append_number(lines, static_cast<std::uint64_t>(rank_));
    lines += R"(,"tid":)";
    append_number(lines, static_cast<std::uint64_t>(lane));
    lines += R"(,"ts":)";
    append_us(lines, at_ns - base_ns_);
  }

  int rank_;
  std::int64_t base_ns_;
  std::string span_start_, span_stop_, span_id_;
};

namespace {

constexpr std::size_t kMaxLanes = 1000;
constexpr std::string_view kOtherLanes = "(other lanes)";
constexpr std::string_view kSpansName = "tensors";

std::int64_t to_ns(TimelineClock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

TimelineEvent event_of(TimelineEvent::Kind kind, int lane, std::uint32_t name, TimelineClock::time_point start,
                       TimelineClock::time_point stop, const TimelineArgs& args) {
  const auto id = [](std::uint32_t interned) { return static_cast<std::uint16_t>(interned); };
  return {to_ns(start),
          to_ns(stop),
          0,
          {args.first.value, args.second.value, args.third.value},
          {id(args.first.key), id(args.second.key), id(args.third.key)},
          id(name),
          id(args.note),
          kind,
          lane};
}

}  // namespace

class Timeline::Core {
 public:
  Core(TraceFile file, const TimelineOptions& options)
      : file_(std::move(file)), text_(options.rank, file_.base_ns()), rings_(options.buffer_events) {}

  Status name_process(const TimelineOptions& options) {
    std::string lines;
    text_.add_process(lines, options);
    return append(lines);
  }

  Status name_lane(int lane, std::string_view name) {
    {
      const std::lock_guard lock(mutex_);
      lanes_.insert_or_assign(std::string(name), lane);
      numbers_.insert(lane);
      spans_named_ = spans_named_ || lane == kSpanLane;
    }
    std::string lines;
    text_.add_lane(lines, lane, name, lane);
    return append(lines);
  }

  int lane(std::string_view name) {
    const std::lock_guard lock(mutex_);
    if (const auto known = lanes_.find(name); known != lanes_.end()) return known->second;
    if (lanes_.size() >= kMaxLanes) name = kOtherLanes;
    const auto [place, fresh] = lanes_.try_emplace(std::string(name), 0);
    if (fresh) {
      const int order = trace::lane_order(name);
      place->second = free_number(name, order);
      // After the engine's lanes.
      text_.add_lane(pending_lines_, place->second, name, order > 0 ? order : 100 + static_cast<int>(lanes_.size()));
    }
    return place->second;
  }

  std::uint32_t intern(std::string_view name) { return names_.intern(name); }

  void add(const TimelineEvent& event) {
    EventRing& ring = rings_.own();
    if (!ring.push(event)) [[unlikely]]
      make_room(ring, event);
  }

  Status set_clock(std::int64_t offset_ns, std::int64_t uncertainty_ns) {
    std::string lines;
    text_.add_clock(lines, offset_ns, uncertainty_ns);
    return append(lines);
  }

  std::size_t pending() const {
    std::size_t count = 0;
    for (const auto& ring : rings_.all()) count += ring->size();
    return count;
  }

  Status flush() {
    if (forked()) return forked_error();
    const std::lock_guard lock(file_mutex_);
    Status written = write_out();
    if (const auto before = std::exchange(failed_before_, std::nullopt)) return failure(*before);
    return written;
  }

 private:
  // The same number for the same name, also in other processes: one file may have several worlds, in which a rank is
  // not always the same process. REQUIRES: mutex_.
  int free_number(std::string_view name, int order) {
    constexpr int kKnown = 10, kOthers = 100;
    constexpr int kNumbers = 1 << 20;
    int number = order > 0 ? kKnown + order : kOthers + static_cast<int>(hash_text(name) % kNumbers);
    while (!numbers_.insert(number).second) ++number;
    return number;
  }

  // Checked before a lock is taken: in a forked child, a thread that does not exist there may hold it.
  bool forked() const { return ::getpid() != process_; }
  static Status forked_error() { return failure(Code::kUnavailable, "a forked child writes no timeline"); }

  void make_room(EventRing& ring, const TimelineEvent& event) {
    if (forked()) return;
    const std::lock_guard lock(file_mutex_);
    if (ring.push(event)) return;  // another thread wrote meanwhile
    // Drains the rings, also if it cannot write.
    if (const Status written = write_out(); !written && !failed_before_) failed_before_ = written.error();
    if (!ring.push(event)) ++dropped_;
  }

  // Ring by ring, to hold little text at once. REQUIRES: file_mutex_.
  Status write_out() {
    Status first = write_names();
    for (const auto& ring : rings_.all()) {
      std::string lines;
      std::uint64_t events = 0;
      bool spans = false;
      ring->drain([&](const TimelineEvent& event) {
        spans = spans || event.kind == TimelineEvent::Kind::kSpan;
        text_.add_event(lines, event, names_);
        ++events;
      });
      if (spans) name_spans(lines);
      if (dropped_ > 0) text_.add_dropped(lines, dropped_, to_ns(TimelineClock::now()));
      const Status written = file_.append(lines);
      if (written) {
        dropped_ = 0;
      } else {
        dropped_ += events;
        if (first) first = written;
      }
    }
    return first;
  }

  Status write_names() {
    std::string lines;
    {
      const std::lock_guard lock(mutex_);
      lines.swap(pending_lines_);
    }
    Status written = file_.append(lines);
    if (!written) {
      const std::lock_guard lock(mutex_);
      pending_lines_.insert(0, lines);
    }
    return written;
  }

  void name_spans(std::string& lines) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(spans_named_, true)) text_.add_lane(lines, kSpanLane, kSpansName, kSpanLane);
  }

  Status append(std::string_view lines) {
    if (forked()) return forked_error();
    const std::lock_guard lock(file_mutex_);  // flock() does not exclude threads of one process
    return file_.append(lines);
  }

  const pid_t process_ = ::getpid();
  std::mutex file_mutex_;  // taken before mutex_
  TraceFile file_;
  std::optional<Error> failed_before_;  // an error that no caller has seen; guarded by file_mutex_
  std::uint64_t dropped_ = 0;           // and not yet written as an event; guarded by file_mutex_
  const TimelineText text_;
  TimelineNames names_;
  mutable std::mutex mutex_;  // guards the members below
  std::map<std::string, int, std::less<>> lanes_;
  std::set<int> numbers_;  // of lanes
  bool spans_named_ = false;
  std::string pending_lines_;
  ThreadRings rings_;
};

Timeline::Timeline(std::unique_ptr<Core> core) : core_(std::move(core)) {}

Timeline::~Timeline() { (void)core_->flush(); }

Result<std::unique_ptr<Timeline>> Timeline::open(const std::string& path, const TimelineOptions& options) {
  TimelineOptions known = options;
  TraceHeader header = this_moment(options.host);
  header.job = options.job;
  known.host = header.host;
  XOE_ASSIGN(auto file, options.create ? TraceFile::create(path, header) : TraceFile::join(path, options.job));
  auto core = std::make_unique<Core>(std::move(file), known);
  XOE_TRY(core->name_process(known));
  return std::unique_ptr<Timeline>(new Timeline(std::move(core)));
}

int Timeline::lane(std::string_view name) { return core_->lane(name); }
Status Timeline::name_lane(int lane, std::string_view name) { return core_->name_lane(lane, name); }
std::uint32_t Timeline::intern(std::string_view name) { return core_->intern(name); }

void Timeline::record(int lane, std::uint32_t name, TimelineClock::time_point start, TimelineClock::time_point stop,
                      const TimelineArgs& args) {
  core_->add(event_of(TimelineEvent::Kind::kBar, lane, name, start, stop, args));
}

void Timeline::record_span(std::uint32_t category, std::uint32_t name, std::uint64_t id,
                           TimelineClock::time_point start, TimelineClock::time_point stop, const TimelineArgs& args) {
  TimelineEvent event = event_of(TimelineEvent::Kind::kSpan, static_cast<int>(category), name, start, stop, args);
  event.id = id;
  core_->add(event);
}

void Timeline::mark(int lane, std::uint32_t name, TimelineClock::time_point at, const TimelineArgs& args) {
  core_->add(event_of(TimelineEvent::Kind::kMark, lane, name, at, at, args));
}

Status Timeline::set_clock(std::chrono::nanoseconds offset, std::chrono::nanoseconds uncertainty) {
  return core_->set_clock(offset.count(), uncertainty.count());
}

Status Timeline::flush() { return core_->flush(); }
std::size_t Timeline::pending() const { return core_->pending(); }

std::string timeline_path(std::string_view pattern, std::string_view host) {
  constexpr std::string_view kHost = "{host}";
  std::string name(host);
  std::replace(name.begin(), name.end(), '/', '_');
  std::string path(pattern);
  for (std::size_t at = 0; (at = path.find(kHost, at)) != std::string::npos; at += name.size()) {
    path.replace(at, kHost.size(), name);
  }
  return path;
}

}  // namespace xoe::trace
