// SQLite with owners and errors as values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/fd.h"
#include "xoe/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace xoe::pool {

class Database;

// A prepared statement: bind(), then next() until it returns false; reset() before it is used again. Of one thread.
class Statement {
 public:
  Statement() = default;
  Statement& bind(int index, std::int64_t value);
  Statement& bind(int index, std::string_view text);
  Statement& bind_null(int index);
  // Binds to 1, 2, ...
  template <class... Values>
  Statement& bind_all(const Values&... values) {
    int index = 0;
    (bind(++index, values), ...);
    return *this;
  }

  Result<bool> next();  // true: there is a row
  // next() for a statement without rows, then reset().
  Status run();
  void reset();

  std::int64_t integer(int column) const;
  std::string text(int column) const;
  bool is_null(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(sqlite3* database, sqlite3_stmt* statement) : database_(database), statement_(statement) {}

  sqlite3* database_ = nullptr;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// One connection, of one thread at a time.
class Database {
 public:
  // Creates the file, which only this user can access, where it is missing. Write-ahead log; what is committed is on
  // the device. `unavailable`: it cannot be opened, or is open for writing already; `data_loss`: it is corrupt.
  static Result<Database> open(const std::string& path);
  // To read what is committed of one that is open; neither waits for the other.
  static Result<Database> open_to_read(const std::string& path);

  Result<Statement> prepare(std::string_view sql);
  Status execute(const std::string& sql);
  Status backup_to(const std::string& path);

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  explicit Database(sqlite3* database) : database_(database) {}

  Fd lock_;  // of the one that writes; it outlives the connection
  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace xoe::pool
