#include "pool/hooks/notifier.h"

#include <set>
#include <utility>

#include "core/base/error.h"

namespace xoe::pool {
namespace {

constexpr Span kEndLook = std::chrono::seconds(1);  // whether it shall end, while nothing happens
constexpr int kLines = 100;                         // of the audit log at once

}  // namespace

Notifier::Notifier(CommandQueue& queue, Send send, Say say, NoticeCounters& counters, NotifierOptions options)
    : queue_(queue), send_(std::move(send)), say_(std::move(say)), counters_(counters), options_(options) {
  queue_.read([&](Pool& pool) {
    if (const auto newest = pool.store().last_event()) after_ = *newest;
  });
  worker_ = std::jthread([this] { work(); });
}

Notifier::~Notifier() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  ended_changed_.notify_all();
}

bool Notifier::pause(Span span) {
  std::unique_lock lock(mutex_);
  return ended_changed_.wait_for(lock, span, [&] { return ended_; });
}

void Notifier::work() {
  while (!pause(Span(0))) {
    const std::uint64_t turn = queue_.turn();
    const auto before = after_;
    for (const Notice& notice : take()) {
      deliver(notice);
      if (pause(Span(0))) return;
    }
    if (after_ == before) queue_.await_turn(turn, kEndLook);
  }
}

std::vector<Notice> Notifier::take() {
  std::vector<Notice> notices;
  std::vector<std::string> unread;
  std::int64_t skipped = 0;
  queue_.read([&](Pool& pool) {
    const auto newest = pool.store().last_event();
    if (!newest) return;
    if (!after_) after_ = *newest;  // the log could not be read before
    skipped = std::max<std::int64_t>(0, *newest - options_.behind - *after_);
    *after_ += skipped;
    const auto lines = pool.store().events(*after_, kLines);
    if (!lines) return;
    for (const Event& line : *lines) {
      after_ = line.number;
      if (line.lease == 0) continue;
      auto lease = pool.lease(line.lease);
      if (!lease && lease.error().code() != Code::kInvalidArgument) unread.push_back(lease.error().message());
      if (!lease || !is_notice(line, *lease)) continue;
      std::set<std::string> hosts;
      for (const std::string& uuid : lease->gpus)
        if (const auto gpu = pool.state().gpus.find(uuid); gpu != pool.state().gpus.end())
          hosts.insert(gpu->second.host);
      notices.push_back({.event = line, .lease = std::move(*lease), .hosts = {hosts.begin(), hosts.end()}});
    }
  });
  if (skipped > 0)
    lose(static_cast<std::uint64_t>(skipped), fmt::format("{} lines of the audit log are too old to tell of", skipped));
  for (const std::string& why : unread) lose(1, why);
  return notices;
}

void Notifier::deliver(const Notice& notice) {
  Span between = options_.pause;
  for (int left = options_.tries;; between *= 2) {
    const Status sent = send_(notice);
    if (sent) {
      ++counters_.sent;
      return;
    }
    if (--left <= 0)
      return lose(1, fmt::format("{}: {} (given up after {} tries)", sentence_of(notice), sent.error().message(),
                                 options_.tries));
    if (pause(between)) return;
  }
}

void Notifier::lose(std::uint64_t count, const std::string& why) {
  counters_.lost += count;
  say_(why);
}

}  // namespace xoe::pool
