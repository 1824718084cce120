// The database of a pool in one turn: its changes, its audit log, and its first failure.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "pool/state/store.h"

namespace xoe::pool {

// One thread at a time.
class Journal {
 public:
  explicit Journal(Store store) : store_(std::move(store)) {}

  Store& store() noexcept { return store_; }
  void begin_turn(Time now) noexcept {
    now_ = now;
    failure_.reset();
  }
  // Of the database, in this turn.
  const std::optional<Error>& failure() const noexcept { return failure_; }
  // Remembers the database's failure.
  Status kept(Status status);
  Error failed(Error error);
  // A line of the audit log.
  Status log(std::string_view actor, std::string_view kind, std::int64_t lease, std::string_view subject,
             std::string_view why);

 private:
  Store store_;
  Time now_ = {};
  std::optional<Error> failure_;
};

}  // namespace xoe::pool
