#include <condition_variable>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/text.h"
#include "bootstrap/store.h"

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

  Result<std::string> get(std::string_view key, std::chrono::nanoseconds timeout) override {
    return get_until(key, Clock::now() + timeout, timeout);
  }

  Result<std::vector<std::string>> get_all(std::span<const std::string> keys,
                                           std::chrono::nanoseconds timeout) override {
    const auto deadline = Clock::now() + timeout;
    std::vector<std::string> values;
    for (const auto& key : keys) {
      XOE_ASSIGN(auto value, get_until(key, deadline, timeout));
      values.push_back(std::move(value));
    }
    return values;
  }

 private:
  using Clock = std::chrono::steady_clock;

  Result<std::string> get_until(std::string_view key, Clock::time_point deadline, std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    auto found = values_.end();
    const auto is_set = [&] { return (found = values_.find(key)) != values_.end(); };
    if (!changed_.wait_until(lock, deadline, is_set))
      return failure(Code::kTimeout, "store: no rank set {} within {}", key,
                     human_seconds(std::chrono::duration<double>(timeout).count()));
    return found->second;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace

std::unique_ptr<Store> make_memory_store() { return std::make_unique<MemoryStore>(); }

}  // namespace xoe::bootstrap
