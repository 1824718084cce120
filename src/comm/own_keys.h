// The keys that a rank has set in a store, which it removes when all ranks have read them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/store.h"

namespace xoe {

class OwnKeys final : public bootstrap::Store {
 public:
  explicit OwnKeys(std::unique_ptr<bootstrap::Store> store) : store_(std::move(store)) {}

  Status set(std::string_view key, std::string_view value) override {
    {
      const std::lock_guard lock(mutex_);
      if (!removed_) keys_.emplace_back(key);
    }
    return store_->set(key, value);
  }
  Status remove(std::span<const std::string> keys) override { return store_->remove(keys); }
  Result<std::vector<std::string>> get_all(std::span<const std::string> keys,
                                           std::chrono::nanoseconds timeout) override {
    return store_->get_all(keys, timeout);
  }

  // Removes them, once all ranks have joined. Keys that are set later are not remembered: the groups that set them do.
  // A store that is gone has no keys.
  void remove_all() {
    std::vector<std::string> keys;
    {
      const std::lock_guard lock(mutex_);
      removed_ = true;
      keys.swap(keys_);
    }
    if (!keys.empty()) static_cast<void>(store_->remove(keys));
  }

 private:
  const std::unique_ptr<bootstrap::Store> store_;
  std::mutex mutex_;
  bool removed_ = false;
  std::vector<std::string> keys_;
};

}  // namespace xoe
