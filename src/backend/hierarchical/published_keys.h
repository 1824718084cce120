// The keys that a rank has set in the store for its groups, and those of them that it may remove.
#pragma once

#include <algorithm>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xoe::hierarchical {

// Any thread.
class PublishedKeys {
 public:
  void add(std::string key) {
    const std::lock_guard lock(mutex_);
    live_.push_back(std::move(key));
  }
  // All that wanted the keys that begin so have read them.
  void forget(std::string_view prefix) {
    const std::lock_guard lock(mutex_);
    const auto first = std::stable_partition(live_.begin(), live_.end(),
                                             [&](const std::string& key) { return !key.starts_with(prefix); });
    obsolete_.insert(obsolete_.end(), std::move_iterator(first), std::move_iterator(live_.end()));
    live_.erase(first, live_.end());
  }
  // The forgotten ones, each once.
  std::vector<std::string> take_obsolete() {
    const std::lock_guard lock(mutex_);
    return std::exchange(obsolete_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> live_;
  std::vector<std::string> obsolete_;
};

}  // namespace xoe::hierarchical
