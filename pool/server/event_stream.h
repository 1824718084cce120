// Server-sent events: what changes, as it changes, for as long as its client reads.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "pool/server/status_feed.h"

namespace xoe::pool {

struct StreamLimits {
  int streams = 64;  // at once: each keeps a thread of the server
  int of_one_user = 8;
  Span life = std::chrono::hours(1);           // then it ends, and its client opens another
  Span keep_alive = std::chrono::seconds(15);  // a line that says nothing, after silence
};

class EventStreams;

// One client's stream. One thread at a time.
class EventStream {
 public:
  EventStream(EventStreams& all, const User& user, std::string token, std::optional<std::int64_t> after);
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;
  ~EventStream();

  struct Message {
    std::string text = {};
    bool last = false;
  };
  // Waits for it, at most for the time of StreamLimits::keep_alive.
  Message next();

 private:
  std::string audit_lines();
  Message last_message(std::string_view why) const;

  EventStreams& all_;
  const std::string user_;
  const std::string token_;
  std::optional<std::int64_t> after_;  // the last line of the audit log that it told; nullopt: of before it began
  std::uint64_t seen_ = 0;             // of the status
  bool greeted_ = false;
  bool allowed_ = true;
  const std::chrono::steady_clock::time_point end_;
};

// All of a server. Any thread.
class EventStreams {
 public:
  EventStreams(CommandQueue& queue, CommandQueue::Clock clock, StreamLimits limits);

  // `resource_exhausted`: there are as many as the limits allow.
  Result<std::shared_ptr<EventStream>> open(const User& user, std::string token, std::optional<std::int64_t> after);
  int count() const { return feed_.viewers(); }
  // Each stream tells its client that the server ends, and ends: all but the slowest have when this returns.
  void end() { feed_.end(std::chrono::seconds(2)); }

 private:
  friend class EventStream;

  CommandQueue& queue_;
  const StreamLimits limits_;
  std::mutex mutex_;
  std::map<std::string, int, std::less<>> by_user_;
  StatusFeed feed_;
};

}  // namespace xoe::pool
