#include "pool/state/store_reader.h"

#include <utility>

#include "core/base/error.h"
#include "pool/state/token.h"

namespace xoe::pool {

Result<StoreReader> StoreReader::open(const std::string& path) {
  XOE_ASSIGN(Database database, Database::open_to_read(path));
  return StoreReader(std::move(database));
}

Result<std::optional<User>> StoreReader::user_with_token(std::string_view token) {
  const std::lock_guard lock(mutex_);
  XOE_ASSIGN(Statement find, database_.prepare(fmt::format("SELECT {} FROM user WHERE token_hash = ?", kUserColumns)));
  const std::string hash = hash_of_token(token);
  XOE_ASSIGN(const bool found, find.bind(1, std::string_view(hash)).next());
  if (!found) return std::optional<User>();
  XOE_ASSIGN(User user, user_of(find));
  return std::optional(std::move(user));
}

Result<std::vector<UsageRow>> StoreReader::usage(Time from, Time to, Time now) {
  const std::lock_guard lock(mutex_);
  return usage_of(database_, from, to, now);
}

Status StoreReader::backup_to(const std::string& path) {
  const std::lock_guard lock(mutex_);
  return database_.backup_to(path);
}

}  // namespace xoe::pool
