// The pool's status for those who watch it live: read once for all of them, and only while there are any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "pool/core/command_queue.h"
#include "pool/server/json.h"

namespace xoe::pool {

class StatusFeed {
 public:
  // At most one message in `interval` to each viewer: what changes faster is told together.
  StatusFeed(CommandQueue& queue, CommandQueue::Clock clock, Span interval);
  StatusFeed(const StatusFeed&) = delete;
  StatusFeed& operator=(const StatusFeed&) = delete;
  ~StatusFeed();

  // A viewer calls these before and after it watches.
  void join();
  void leave();
  int viewers() const;

  struct News {
    bool ended = false;       // the server ends
    std::string status = {};  // the fields of /v1/status that changed after `seen`, as JSON; empty: none in this time
  };
  // Waits for news after `seen`, at first 0, which it sets to where they end. Any thread.
  News await(std::uint64_t& seen, Span timeout);
  // Every wait returns at once from now on. Returns when the last viewer has left, or after `timeout`.
  void end(Span timeout);

 private:
  struct Field {
    std::string text = {};
    std::uint64_t version = 0;  // of its last change
  };
  void work();
  void take(const Json& status);

  CommandQueue& queue_;
  CommandQueue::Clock clock_;
  const Span interval_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Field> fields_;
  std::uint64_t version_ = 0;
  int viewers_ = 0;
  bool ended_ = false;
  std::jthread worker_;  // last: it uses all of the above
};

}  // namespace xoe::pool
