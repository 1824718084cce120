#include "pool/server/status_feed.h"

#include <utility>

namespace xoe::pool {
namespace {

constexpr Span kTurnWait = std::chrono::seconds(1);  // for a turn, after which it looks whether it shall end

}  // namespace

StatusFeed::StatusFeed(CommandQueue& queue, CommandQueue::Clock clock, Span interval)
    : queue_(queue), clock_(std::move(clock)), interval_(interval), worker_([this] { work(); }) {}

StatusFeed::~StatusFeed() { end(Span(0)); }

void StatusFeed::join() {
  const std::lock_guard lock(mutex_);
  ++viewers_;
  changed_.notify_all();
}

void StatusFeed::leave() {
  const std::lock_guard lock(mutex_);
  if (--viewers_ > 0) return;
  fields_.clear();  // old when the next one comes
  changed_.notify_all();
}

int StatusFeed::viewers() const {
  const std::lock_guard lock(mutex_);
  return viewers_;
}

void StatusFeed::end(Span timeout) {
  std::unique_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, timeout, [&] { return viewers_ == 0; });
}

StatusFeed::News StatusFeed::await(std::uint64_t& seen, Span timeout) {
  std::unique_lock lock(mutex_);
  const bool any = changed_.wait_for(lock, timeout, [&] { return ended_ || (!fields_.empty() && version_ > seen); });
  News news{.ended = ended_};
  if (!any || ended_) return news;
  for (const auto& [name, field] : fields_)
    if (field.version > seen) news.status += (news.status.empty() ? "{" : ",") + Json(name).dump() + ":" + field.text;
  news.status += "}";
  seen = version_;
  return news;
}

void StatusFeed::work() {
  std::uint64_t turn = 0;
  for (std::unique_lock lock(mutex_); !ended_;) {
    changed_.wait(lock, [&] { return ended_ || viewers_ > 0; });
    if (ended_) return;
    const bool first = fields_.empty();
    lock.unlock();
    const bool news = first || queue_.await_turn(turn, kTurnWait);
    if (news) {
      turn = queue_.turn();
      Json status;
      queue_.read([&](Pool& pool) { status = status_json(pool, clock_()); });
      take(status);
    }
    lock.lock();
    if (news) changed_.wait_for(lock, interval_, [&] { return ended_; });
  }
}

void StatusFeed::take(const Json& status) {
  const std::lock_guard lock(mutex_);
  if (viewers_ == 0) return;
  const std::uint64_t next = version_ + 1;
  for (const auto& [name, value] : status.items()) {
    std::string text = to_text(value);
    Field& field = fields_[name];
    if (field.text == text) continue;
    field = {.text = std::move(text), .version = next};
    if (name != "now") version_ = next;  // the time alone is no news
  }
  changed_.notify_all();
}

}  // namespace xoe::pool
