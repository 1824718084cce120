#include "trace/timeline.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "trace/event_text.h"
#include "trace/file.h"
#include "trace/interned_names.h"
#include "trace/names.h"
#include "trace/thread_rings.h"

namespace xoe::trace {
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
      last_lane_ = std::max(last_lane_, lane);
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
    const auto [place, fresh] = lanes_.try_emplace(std::string(name), last_lane_ + 1);
    if (fresh) {
      ++last_lane_;
      const int order = trace::lane_order(name);
      // After the engine's lanes.
      text_.add_lane(pending_lines_, last_lane_, name, order > 0 ? order : 100 + last_lane_);
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
    return write_out();
  }

 private:
  // Checked before a lock is taken: in a forked child, a thread that does not exist there may hold it.
  bool forked() const { return ::getpid() != process_; }
  static Status forked_error() { return failure(Code::kUnavailable, "a forked child writes no timeline"); }

  void make_room(EventRing& ring, const TimelineEvent& event) {
    if (forked()) return;
    const std::lock_guard lock(file_mutex_);
    if (ring.push(event)) return;  // another thread wrote meanwhile
    (void)write_out();             // drains the rings, also if it cannot write
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
  std::uint64_t dropped_ = 0;  // and not yet written as an event; guarded by file_mutex_
  const TimelineText text_;
  TimelineNames names_;
  mutable std::mutex mutex_;  // guards the members below
  std::map<std::string, int, std::less<>> lanes_;
  int last_lane_ = 0;
  bool spans_named_ = false;
  std::string pending_lines_;
  ThreadRings rings_;
};

Timeline::Timeline(std::unique_ptr<Core> core) : core_(std::move(core)) {}

Timeline::~Timeline() { (void)core_->flush(); }

Result<std::unique_ptr<Timeline>> Timeline::open(const std::string& path, const TimelineOptions& options) {
  TimelineOptions known = options;
  const TraceHeader header = this_moment(options.host);
  known.host = header.host;
  XOE_ASSIGN(auto file, options.create ? TraceFile::create(path, header) : TraceFile::join(path));
  auto core = std::make_unique<Core>(std::move(file), known);
  XOE_TRY(core->name_process(known));
  return std::unique_ptr<Timeline>(new Timeline(std::move(core)));
}

Result<std::unique_ptr<Timeline>> Timeline::open(const std::string& path, int rank, bool create) {
  return open(path, TimelineOptions{.rank = rank, .create = create});
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
