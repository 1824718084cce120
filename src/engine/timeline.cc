#include "engine/timeline.h"

#include <unistd.h>

#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/trace_file.h"

namespace xoe::engine {
namespace {

std::int64_t to_ns(TimelineClock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

void append_json_string(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
}

}  // namespace

class Timeline::Core {
 public:
  Core(TraceFile file, int rank) : file_(std::move(file)), rank_(rank), id_(next_id()) {}

  Status name_lane(int lane, std::string_view name) {
    std::string lines;
    add_metadata(lines, "thread_name", lane, name);
    fmt::format_to(std::back_inserter(lines),
                   R"({{"ph":"M","name":"thread_sort_index","pid":{0},"tid":{1},"args":{{"sort_index":{1}}}}},)"
                   "\n",
                   rank_, lane);
    return append(lines);
  }

  Status name_process() {
    std::string lines;
    add_metadata(lines, "process_name", 0, fmt::format("rank {} (pid {})", rank_, ::getpid()));
    fmt::format_to(std::back_inserter(lines),
                   R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}},)"
                   "\n",
                   rank_);
    return append(lines);
  }

  std::uint32_t intern(std::string_view name) {
    const std::lock_guard lock(mutex_);
    const auto [place, fresh] = ids_.try_emplace(std::string(name), static_cast<std::uint32_t>(names_.size()));
    if (fresh) {
      std::string escaped;
      append_json_string(escaped, name);
      names_.push_back(std::move(escaped));
    }
    return place->second;
  }

  void record(int lane, std::uint32_t name, TimelineClock::time_point start, TimelineClock::time_point stop) {
    Buffer& buffer = own_buffer();
    const std::lock_guard lock(buffer.mutex);  // contended only while a flush takes the events
    buffer.events.push_back({to_ns(start), to_ns(stop), lane, name});
  }

  std::size_t pending() const {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& buffer : buffers_) {
      const std::lock_guard buffer_lock(buffer->mutex);
      count += buffer->events.size();
    }
    return count;
  }

  Status flush() {
    std::string lines;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& buffer : buffers_) {
        std::vector<Event> events;
        {
          const std::lock_guard buffer_lock(buffer->mutex);
          events.swap(buffer->events);
          buffer->events.reserve(events.size());
        }
        for (const Event& event : events) add_event(lines, event);
      }
    }
    return append(lines);
  }

 private:
  struct Event {
    std::int64_t start_ns;
    std::int64_t stop_ns;
    int lane;
    std::uint32_t name;
  };
  struct Buffer {
    std::mutex mutex;
    std::vector<Event> events;
  };

  static std::uint64_t next_id() {
    static std::atomic<std::uint64_t> next{1};
    return next.fetch_add(1, std::memory_order_relaxed);
  }

  // Each thread remembers its buffer of the timeline that it used last; ids are never used again, so that a
  // remembered pointer of a timeline that is gone is never followed.
  Buffer& own_buffer() {
    thread_local std::uint64_t known_id = 0;
    thread_local Buffer* known = nullptr;
    if (known_id != id_) {
      const std::lock_guard lock(mutex_);
      known = buffers_.emplace_back(std::make_unique<Buffer>()).get();
      known_id = id_;
    }
    return *known;
  }

  void add_event(std::string& lines, const Event& event) const {
    const double start_us = static_cast<double>(event.start_ns - file_.base_ns()) * 1e-3;
    const double length_us = static_cast<double>(event.stop_ns - event.start_ns) * 1e-3;
    fmt::format_to(std::back_inserter(lines),
                   R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":"{}"}},)"
                   "\n",
                   rank_, event.lane, start_us, length_us, names_[event.name]);
  }

  void add_metadata(std::string& lines, std::string_view kind, int lane, std::string_view name) const {
    fmt::format_to(std::back_inserter(lines), R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":")", kind,
                   rank_, lane);
    append_json_string(lines, name);
    lines += "\"}},\n";
  }

  Status append(std::string_view lines) {
    const std::lock_guard lock(file_mutex_);  // flock() does not tell threads apart
    return file_.append(lines);
  }

  std::mutex file_mutex_;
  TraceFile file_;
  const int rank_;
  const std::uint64_t id_;
  mutable std::mutex mutex_;  // names, ids, list of buffers; taken before a buffer's
  std::vector<std::string> names_;
  std::map<std::string, std::uint32_t, std::less<>> ids_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

Timeline::Timeline(std::unique_ptr<Core> core) : core_(std::move(core)) {}

Timeline::~Timeline() { (void)core_->flush(); }

Result<std::unique_ptr<Timeline>> Timeline::open(const std::string& path, int rank, bool create) {
  XOE_ASSIGN(auto file, create ? TraceFile::create(path, to_ns(TimelineClock::now())) : TraceFile::join(path));
  auto core = std::make_unique<Core>(std::move(file), rank);
  XOE_TRY(core->name_process());
  return std::unique_ptr<Timeline>(new Timeline(std::move(core)));
}

Status Timeline::name_lane(int lane, std::string_view name) { return core_->name_lane(lane, name); }
std::uint32_t Timeline::intern(std::string_view name) { return core_->intern(name); }
void Timeline::record(int lane, std::uint32_t name, TimelineClock::time_point start, TimelineClock::time_point stop) {
  core_->record(lane, name, start, stop);
}
Status Timeline::flush() { return core_->flush(); }
std::size_t Timeline::pending() const { return core_->pending(); }

}  // namespace xoe::engine
