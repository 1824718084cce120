// A store that remembers the keys which this rank has set in it, and removes those that all ranks have read.
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/bootstrap/store.h"

namespace xoe::bootstrap {

class OwnKeys final : public Store {
 public:
  explicit OwnKeys(std::unique_ptr<Store> store) : store_(std::move(store)) {}

  // Removes those that have been forgotten before.
  Status set(std::string_view key, std::string_view value) override {
    std::vector<std::string> obsolete;
    {
      const std::lock_guard lock(mutex_);
      live_.emplace_back(key);
      obsolete.swap(obsolete_);
    }
    if (!obsolete.empty()) XOE_TRY(store_->remove(obsolete));
    return store_->set(key, value);
  }
  Status remove(std::span<const std::string> keys) override { return store_->remove(keys); }
  Result<std::vector<std::string>> get_all(std::span<const std::string> keys,
                                           std::chrono::nanoseconds timeout) override {
    return store_->get_all(keys, timeout);
  }

  // All that wanted the keys that begin so have read them. Does not ask the store.
  void forget(std::string_view prefix) {
    const std::lock_guard lock(mutex_);
    const auto first = std::stable_partition(live_.begin(), live_.end(),
                                             [&](const std::string& key) { return !key.starts_with(prefix); });
    obsolete_.insert(obsolete_.end(), std::move_iterator(first), std::move_iterator(live_.end()));
    live_.erase(first, live_.end());
  }
  // The same for all keys, which are removed now. A store that is gone has none.
  void remove_all() {
    forget("");
    std::vector<std::string> keys;
    {
      const std::lock_guard lock(mutex_);
      keys.swap(obsolete_);
    }
    if (!keys.empty()) static_cast<void>(store_->remove(keys));
  }

 private:
  const std::unique_ptr<Store> store_;
  std::mutex mutex_;
  std::vector<std::string> live_;
  std::vector<std::string> obsolete_;
};

}  // namespace xoe::bootstrap
