#include "core/engine/messages/matching.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"

namespace xoe::engine {
namespace {

constexpr std::size_t kHeader = 2 * sizeof(std::uint64_t);
constexpr std::size_t kShare = std::size_t{1} << 20;   // of a turn: others want the lock, too
constexpr std::size_t kGrowth = std::size_t{1} << 20;  // of kept bytes: a size is believed as its bytes arrive

std::list<MessagePtr>::iterator find_tag(std::list<MessagePtr>& list, std::uint64_t tag) {
  return std::ranges::find(list, tag, [](const MessagePtr& one) { return one->tag; });
}

}  // namespace

void Message::take(int from, const std::vector<std::byte>& kept) {
  peer = from;
  if (kept.size() != bytes) {
    return finish(failure(Code::kInvalidArgument,
                          "a message of rank {} has {} bytes where {} were expected: both ranks must agree on its size",
                          from, kept.size(), bytes));
  }
  if (bytes > 0) std::memcpy(data, kept.data(), bytes);
  finish();
}

void SendQueue::add(MessagePtr message) {
  if (!state_) return message->finish(state_);
  queue_.push_back(std::move(message));
}

bool SendQueue::push(ByteLink& link) {
  std::size_t moved = 0;
  while (!queue_.empty()) {
    Message& message = *queue_.front();
    std::string header;
    append_little(header, message.tag);
    append_little(header, static_cast<std::uint64_t>(message.bytes));
    const std::size_t all = kHeader + message.bytes;
    while (message.moved < all) {
      const bool in_header = message.moved < kHeader;
      const std::byte* const from = in_header ? reinterpret_cast<const std::byte*>(header.data()) + message.moved
                                              : message.data + (message.moved - kHeader);
      const std::size_t count = link.write({from, std::min((in_header ? kHeader : all) - message.moved, kShare)});
      message.moved += count;
      moved += count;
      if (count == 0 || moved >= kShare) break;
    }
    if (message.moved < all || !link.flushed()) break;
    message.finish();
    queue_.pop_front();
  }
  return moved > 0;
}

void SendQueue::give_up(const MessagePtr& send) {
  if (send->moved == 0) {
    std::erase(queue_, send);
    return;
  }
  send->copy.assign(send->data, send->data + send->bytes);
  send->data = send->copy.data();
}

void SendQueue::fail(const Status& why) {
  for (const MessagePtr& message : queue_) message->finish(why);
  queue_.clear();
  state_ = why;
}

std::uint64_t Matching::Incoming::tag() const { return load_little<std::uint64_t>(header); }

std::size_t Matching::Incoming::bytes() const {
  return static_cast<std::size_t>(load_little<std::uint64_t>(header + sizeof(std::uint64_t)));
}

void Matching::add(const MessagePtr& receive) {
  const bool any = receive->peer == kAnyRank;
  const auto size = static_cast<int>(incoming_.size());
  const int first = any ? turn_ : receive->peer;
  for (int i = 0; i < (any ? size : 1); ++i) {
    const int from = (first + i) % size;
    auto& waiting = incoming_[static_cast<std::size_t>(from)].waiting;
    const auto kept = std::ranges::find(waiting, receive->tag, &Incoming::Kept::tag);
    if (kept == waiting.end()) continue;
    receive->take(from, kept->bytes);
    waiting.erase(kept);
    if (any) turn_ = (from + 1) % size;
    return;
  }
  receive->order = ++receives_;
  (any ? of_any_ : expected_[static_cast<std::size_t>(first)]).push_back(receive);
}

bool Matching::wants(int from) const {
  const auto peer = static_cast<std::size_t>(from);
  if (incoming_[peer].cut) return false;
  return !of_any_.empty() || !expected_[peer].empty() || incoming_[peer].into != nullptr;
}

bool Matching::pull(int from, ByteLink& link) {
  Incoming& incoming = incoming_[static_cast<std::size_t>(from)];
  std::size_t moved = 0;
  while (moved < kShare && wants(from)) {
    std::byte* to = incoming.header + incoming.got;
    std::size_t left = kHeader - incoming.got;
    if (incoming.got >= kHeader) {
      const std::size_t at = incoming.got - kHeader;
      left = incoming.bytes() - at;
      if (!incoming.into) {
        left = std::min(left, kGrowth);
        if (incoming.kept.size() < at + left) incoming.kept.resize(at + left);
      }
      to = (incoming.into ? incoming.into->data : incoming.kept.data()) + at;
    }
    const std::size_t count = link.read({to, left});
    if (count == 0) break;
    moved += count;
    incoming.got += count;
    if (incoming.got == kHeader) begin(from, incoming);
    if (incoming.got >= kHeader && incoming.got - kHeader == incoming.bytes()) end(from, incoming);
  }
  return moved > 0;
}

// The one that was posted first.
Matching::Found Matching::find(int from, std::uint64_t tag) {
  auto& expected = expected_[static_cast<std::size_t>(from)];
  const auto found = find_tag(expected, tag);
  const auto of_any = find_tag(of_any_, tag);
  const bool takes_any = found == expected.end() || (of_any != of_any_.end() && (*of_any)->order < (*found)->order);
  return takes_any ? Found{&of_any_, of_any} : Found{&expected, found};
}

MessagePtr Matching::claim(int from, std::uint64_t tag) {
  const auto [list, at] = find(from, tag);
  if (at == list->end()) return nullptr;
  MessagePtr claimed = std::move(*at);
  list->erase(at);
  if (claimed->peer == kAnyRank) turn_ = (from + 1) % static_cast<int>(incoming_.size());
  claimed->peer = from;
  return claimed;
}

MessagePtr Matching::claim_sized(int from, std::uint64_t tag, std::size_t bytes) {
  const auto [list, at] = find(from, tag);
  return at != list->end() && (*at)->bytes == bytes ? claim(from, tag) : nullptr;
}

void Matching::begin(int from, Incoming& incoming) {
  incoming.into = claim_sized(from, incoming.tag(), incoming.bytes());
}

void Matching::end(int from, Incoming& incoming) {
  if (incoming.into) {
    incoming.into->finish();
  } else if (const MessagePtr claimed = claim(from, incoming.tag())) {  // of another size, or added since
    claimed->take(from, incoming.kept);
  } else {
    incoming.waiting.push_back({incoming.tag(), std::move(incoming.kept)});
  }
  incoming.into = nullptr;
  incoming.kept = {};
  incoming.got = 0;
}

void Matching::forget(const MessagePtr& receive) {
  if (receive->peer == kAnyRank) {
    std::erase(of_any_, receive);
    return;
  }
  const auto peer = static_cast<std::size_t>(receive->peer);
  std::erase(expected_[peer], receive);
  Incoming& incoming = incoming_[peer];
  if (incoming.into != receive) return;
  const std::size_t arrived = incoming.got - kHeader;
  incoming.kept.assign(receive->data, receive->data + arrived);
  incoming.into = nullptr;
}

void Matching::fail(int from, const Status& why) {
  const auto peer = static_cast<std::size_t>(from);
  for (const MessagePtr& receive : expected_[peer]) receive->finish(why);
  expected_[peer].clear();
  Incoming& incoming = incoming_[peer];
  if (!incoming.into) return;
  incoming.into->finish(why);
  incoming.into = nullptr;
  incoming.cut = true;
}

void Matching::fail_any(const Status& why) {
  for (const MessagePtr& receive : of_any_) receive->finish(why);
  of_any_.clear();
}

bool Matching::empty() const {
  return of_any_.empty() && std::ranges::all_of(expected_, &std::list<MessagePtr>::empty) &&
         std::ranges::none_of(incoming_, [](const Incoming& one) { return one.into != nullptr; });
}

}  // namespace xoe::engine
