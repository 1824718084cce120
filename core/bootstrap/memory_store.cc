#include <condition_variable>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/bootstrap/store.h"

namespace xoe::bootstrap {
namespace {

class MemoryStore final : public Store {
 public:
  Status set(std::string_view key, std::string_view value) override {
    const std::scoped_lock lock(mutex_);
    const auto [entry, added] = values_.try_emplace(std::string(key), value);
    if (!added && entry->second != value)
      return failure(Code::kInvalidArgument, "store: key {} is already set to another value", key);
    changed_.notify_all();
    return {};
  }

  Status remove(std::span<const std::string> keys) override {
    const std::scoped_lock lock(mutex_);
    for (const std::string& key : keys) values_.erase(key);
    return {};
  }

  Result<std::vector<std::string>> get_all(std::span<const std::string> keys,
                                           std::chrono::nanoseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    std::vector<std::string> values;
    std::unique_lock lock(mutex_);
    for (const auto& key : keys) {
      if (!changed_.wait_until(lock, deadline, [&] { return values_.contains(key); }))
        return failure(Code::kTimeout, "store: no rank set {} within {}", key, human_seconds(timeout));
      values.push_back(values_.at(key));
    }
    return values;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace

std::unique_ptr<Store> make_memory_store() { return std::make_unique<MemoryStore>(); }

}  // namespace xoe::bootstrap
