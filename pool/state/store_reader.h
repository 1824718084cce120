// Reads what is committed of a pool's database beside the pool that changes it: neither waits for the other.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pool/state/store.h"

namespace xoe::pool {

// Any thread; one after the other.
class StoreReader {
 public:
  // Of a store that is open.
  static Result<StoreReader> open(const std::string& path);
  StoreReader(StoreReader&& other) noexcept : database_(std::move(other.database_)) {}
  StoreReader& operator=(StoreReader&&) = delete;

  // nullopt: no user has this token.
  Result<std::optional<User>> user_with_token(std::string_view token);
  Result<std::vector<UsageRow>> usage(Time from, Time to, Time now);
  Status backup_to(const std::string& path);

 private:
  explicit StoreReader(Database database) : database_(std::move(database)) {}

  std::mutex mutex_;
  Database database_;
};

}  // namespace xoe::pool
