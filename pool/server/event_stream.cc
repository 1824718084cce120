#include "pool/server/event_stream.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "pool/state/token.h"

namespace xoe::pool {
namespace {

constexpr Span kInterval = std::chrono::milliseconds(500);  // between two messages
constexpr int kMostLines = 1000;                            // of the audit log in one message
constexpr std::string_view kRetry = "retry: 2000\n";        // milliseconds, before a client opens another stream

std::string event_text(std::string_view name, std::string_view data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, data);
}

}  // namespace

EventStream::EventStream(EventStreams& all, const User& user, std::string token, std::optional<std::int64_t> after)
    : all_(all),
      user_(user.name),
      token_(std::move(token)),
      after_(after),
      end_(std::chrono::steady_clock::now() + all.limits_.life) {
  all_.feed_.join();
}

EventStream::~EventStream() {
  all_.feed_.leave();
  const std::lock_guard lock(all_.mutex_);
  const auto mine = all_.by_user_.find(user_);
  if (--mine->second == 0) all_.by_user_.erase(mine);
}

EventStream::Message EventStream::last_message(std::string_view why) const {
  return {.text = event_text("end", Json{{"why", why}}.dump()), .last = true};
}

EventStream::Message EventStream::next() {
  if (!std::exchange(greeted_, true)) return {.text = std::string(kRetry) + audit_lines() + "\n"};
  const auto left = std::chrono::floor<Span>(end_ - std::chrono::steady_clock::now());
  if (left <= Span(0)) return last_message("it was open for long; open another");
  const StatusFeed::News news = all_.feed_.await(seen_, std::min(left, all_.limits_.keep_alive));
  if (news.ended) return last_message("the server ends");
  std::string text = audit_lines();
  if (!allowed_) return last_message("no user has this token any more");
  if (!news.status.empty()) text += event_text("status", news.status);
  return {.text = text.empty() ? ": nothing new\n\n" : std::move(text)};
}

// Its user's right to read is looked at each time: tokens are replaced, and roles change.
std::string EventStream::audit_lines() {
  std::string text;
  all_.queue_.read([&](Pool& pool) {
    const User* const user = user_with_token(pool.state(), token_);
    allowed_ = user != nullptr && user->role != Role::kAgent;
    if (!allowed_ || user->role < Role::kLead) return;
    if (!after_) {
      const auto newest = pool.store().last_event();
      if (newest) after_ = *newest;
      return;
    }
    const auto lines = pool.store().events(*after_, kMostLines);
    if (!lines) return;  // told with the next message
    for (const Event& line : *lines) {
      text += fmt::format("id: {}\n", line.number) + event_text("audit", to_text(json_of(line)));
      after_ = line.number;
    }
  });
  return text;
}

EventStreams::EventStreams(CommandQueue& queue, CommandQueue::Clock clock, StreamLimits limits)
    : queue_(queue), limits_(limits), feed_(queue, std::move(clock), kInterval) {}

Result<std::shared_ptr<EventStream>> EventStreams::open(const User& user, std::string token,
                                                        std::optional<std::int64_t> after) {
  {
    const std::lock_guard lock(mutex_);
    int all = 0;
    for (const auto& [name, count] : by_user_) all += count;
    if (all >= limits_.streams)
      return failure(Code::kResourceExhausted, "{} streams of events are open, as many as the server has room for",
                     all);
    int& mine = by_user_[user.name];
    if (mine >= limits_.of_one_user)
      return failure(Code::kResourceExhausted,
                     "{} has {} streams of events open, as many as a user may have: close one", user.name, mine);
    ++mine;
  }
  return std::make_shared<EventStream>(*this, user, std::move(token), after);
}

}  // namespace xoe::pool
