#include "core/engine/execute/compress/codec_store.h"

#include <algorithm>
#include <iterator>

#include "core/base/hash.h"
#include "core/engine/execute/compress/codecs.h"

namespace xoe::engine {
namespace {

constexpr std::uint64_t kIntervals = 4;
constexpr std::size_t kRemembered = std::size_t{1} << 16;  // of the names that were forgotten
constexpr std::size_t kOwnBytes = 256;                     // of an entry, about

}  // namespace

CodecStore::CodecStore() : scratch_(own_scratch()) {}

Codecs& CodecStore::use(std::string_view name, std::size_t bytes) {
  ++now_;
  bytes += kOwnBytes;
  auto found = entries_.find(name);
  if (found == entries_.end()) {
    Entry& made = once_.emplace_back();
    made.name = name;
    if (const auto before = forgotten_.find(hash_text(name)); before != forgotten_.end()) made.used = before->second;
    found = entries_.emplace(made.name, std::prev(once_.end())).first;
  }
  const Entries::iterator place = found->second;
  Entry& entry = *place;
  Entries& was_in = entry.interval == 0 ? once_ : often_;
  if (entry.interval != 0) ends_.erase(end_of(entry));
  if (entry.used != 0) entry.interval = std::max(entry.interval, now_ - entry.used);
  entry.used = now_;
  entry.lasts_until = now_ + kIntervals * std::max<std::uint64_t>(entry.interval, entries_.size());
  Entries& is_in = entry.interval == 0 ? once_ : often_;
  is_in.splice(is_in.end(), was_in, place);
  if (entry.interval != 0) ends_.emplace(end_of(entry), place);
  bytes_ += bytes;
  bytes_ -= entry.bytes;
  entry.bytes = bytes;
  trim(entry);
  return entry.codecs;
}

void CodecStore::trim(const Entry& in_use) {
  while (bytes_ > limit_) {
    if (!ends_.empty() && ends_.begin()->first.first < now_ &&
        now_ - ends_.begin()->first.second > kIntervals * entries_.size())
      forget(ends_.begin()->second);
    else if (!once_.empty() && &once_.front() != &in_use)
      forget(once_.begin());
    else
      return;
  }
}

void CodecStore::forget(Entries::iterator place) {
  const Entry& entry = *place;
  const std::uint64_t hash = hash_text(entry.name);
  if (forgotten_.insert_or_assign(hash, entry.used).second) forgotten_order_.push_back(hash);
  if (forgotten_order_.size() > kRemembered) {
    forgotten_.erase(forgotten_order_.front());
    forgotten_order_.pop_front();
  }
  bytes_ -= entry.bytes;
  entries_.erase(entry.name);
  if (entry.interval != 0) ends_.erase(end_of(entry));
  (entry.interval == 0 ? once_ : often_).erase(place);
}

}  // namespace xoe::engine
