#include "pool/server/rate_limit.h"

#include <algorithm>

namespace xoe::pool {
namespace {

constexpr std::size_t kMostClients = 10'000;  // before those that are silent are forgotten

}  // namespace

double RateLimit::tokens_at(const Bucket& bucket, Time now) const {
  const double seconds = std::chrono::duration<double>(now - bucket.filled).count();
  return std::min(at_once_, bucket.tokens + seconds * rate_);
}

bool RateLimit::would_take(const std::string& client, Time now) {
  const std::lock_guard lock(mutex_);
  const auto found = buckets_.find(client);
  return rate_ == 0 || found == buckets_.end() || tokens_at(found->second, now) >= 1;
}

bool RateLimit::take(const std::string& client, Time now) {
  if (rate_ == 0) return true;
  const std::lock_guard lock(mutex_);
  if (buckets_.size() >= kMostClients)
    std::erase_if(buckets_, [&](const auto& item) { return tokens_at(item.second, now) >= at_once_; });
  // Where there is room for no more, a new client is served without being counted.
  auto found = buckets_.find(client);
  if (found == buckets_.end()) {
    if (buckets_.size() >= kMostClients) return true;
    found = buckets_.emplace(client, Bucket{.tokens = at_once_, .filled = now}).first;
  }
  Bucket& bucket = found->second;
  bucket = {.tokens = tokens_at(bucket, now), .filled = now};
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

}  // namespace xoe::pool
