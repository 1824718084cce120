// Sends notices one after the other, apart from the pool's turns: the audit log is its queue.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "pool/core/command_queue.h"
#include "pool/hooks/notice.h"

namespace xoe::pool {

struct NoticeCounters {
  std::atomic<std::uint64_t> sent = 0;
  std::atomic<std::uint64_t> lost = 0;  // after the last try, or too far behind
};

struct NotifierOptions {
  int tries = 5;
  Span pause = std::chrono::seconds(1);  // after the first failure; then twice as long each time
  std::int64_t behind = 1000;            // lines of the audit log; older ones are given up
};

// From its construction to its destruction. Notices of a time in which no server ran are not sent.
class Notifier {
 public:
  // Both are called by a thread of its own. `send` ends within some seconds.
  using Send = std::function<Status(const Notice&)>;
  using Say = std::function<void(const std::string&)>;  // what was given up, and why

  Notifier(CommandQueue& queue, Send send, Say say, NoticeCounters& counters, NotifierOptions options = {});
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;
  ~Notifier();

 private:
  void work();
  std::vector<Notice> take();
  void deliver(const Notice& notice);
  // True: the notifier ends.
  bool pause(Span span);
  void lose(std::uint64_t count, const std::string& why);

  CommandQueue& queue_;
  Send send_;
  Say say_;
  NoticeCounters& counters_;
  const NotifierOptions options_;
  std::optional<std::int64_t> after_ = {};  // the last line of the audit log that was looked at; none yet
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
  std::jthread worker_;  // last: it uses all of the above
};

}  // namespace xoe::pool
