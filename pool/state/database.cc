#include "pool/state/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace xoe::pool {
namespace {

constexpr int kBusyMilliseconds = 5000;  // while the log is taken into the file

// What can be done about an error of SQLite, by its primary code and that of the system.
std::string_view advice_for(int error, int of_system) {
  if ((error == SQLITE_CANTOPEN || error == SQLITE_IOERR) && (of_system == EMFILE || of_system == ENFILE))
    return "; too many files are open: raise `ulimit -n` of the server";
  switch (error) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return "; put a backup (`xoe pool backup`) in its place";
    case SQLITE_FULL: return "; make room on its disk";
    case SQLITE_IOERR: return "; see whether its disk has room and is sound";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN: return "; see whether the server's user may write it and its folder";
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return "; another program keeps it locked";
    default: return "";
  }
}

Code code_of(int error) {
  if (error == SQLITE_CORRUPT || error == SQLITE_NOTADB) return Code::kDataLoss;
  if (error == SQLITE_FULL) return Code::kResourceExhausted;
  if (error == SQLITE_CONSTRAINT || error == SQLITE_ERROR || error == SQLITE_MISUSE) return Code::kInternal;
  return Code::kUnavailable;
}

// `doing`, a statement or a path, is told where the error is in Xoe.
tl::unexpected<Error> sqlite_failure(sqlite3* database, std::string_view doing) {
  const int error = sqlite3_errcode(database) & 0xff;
  const Code code = code_of(error);
  const char* const file = database == nullptr ? nullptr : sqlite3_db_filename(database, "main");
  if (code == Code::kInternal)
    return failure(code, "the pool's database refuses a statement: {} ({})", sqlite3_errmsg(database), doing);
  return failure(code, "the pool's database {} cannot be used: {}{}", file == nullptr || *file == '\0' ? doing : file,
                 sqlite3_errmsg(database), advice_for(error, sqlite3_system_errno(database)));
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Statement& Statement::bind(int index, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), index, value);
  return *this;
}

Statement& Statement::bind(int index, std::string_view text) {
  // A null pointer would bind NULL.
  sqlite3_bind_text64(statement_.get(), index, text.empty() ? "" : text.data(), text.size(), SQLITE_TRANSIENT,
                      SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind_null(int index) {
  sqlite3_bind_null(statement_.get(), index);
  return *this;
}

Result<bool> Statement::next() {
  const int result = sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  auto failed = sqlite_failure(database_, sqlite3_sql(statement_.get()));
  reset();
  return failed;
}

Status Statement::run() {
  XOE_ASSIGN([[maybe_unused]] const bool row, next());
  reset();
  return {};
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }

std::string Statement::text(int column) const {
  const auto* const bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return bytes == nullptr ? std::string() : std::string(bytes, sqlite3_column_bytes(statement_.get(), column));
}

bool Statement::is_null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }

Result<Database> Database::open(const std::string& path) {
  // Two servers on one file would not see each other's state.
  Fd lock(::open((path + "-lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return failure(Code::kUnavailable, "cannot open {}-lock: {}", path, errno_text(errno));
  const auto taken = [&] {
    return failure(Code::kUnavailable, "another server has the pool's database {} open", path);
  };
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return taken();
  // SQLite gives its other files the permissions of this one.
  if (!Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)).valid())
    return failure(Code::kUnavailable, "cannot open {}: {}", path, errno_text(errno));
  sqlite3* raw = nullptr;
  const int opened =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  Database database(raw);
  database.lock_ = std::move(lock);
  if (opened != SQLITE_OK) return sqlite_failure(raw, path);
  for (const char* sql : {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA foreign_keys = ON",
                          "BEGIN IMMEDIATE", "COMMIT"})
    if (const auto done = database.execute(sql); !done) {
      // A server of before there was the lock locks the database itself.
      if ((sqlite3_errcode(raw) & 0xff) == SQLITE_BUSY) return taken();
      return failure(done.error());
    }
  sqlite3_busy_timeout(raw, kBusyMilliseconds);
  return database;
}

Result<Database> Database::open_to_read(const std::string& path) {
  sqlite3* raw = nullptr;
  const int opened =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  Database database(raw);
  if (opened != SQLITE_OK) return sqlite_failure(raw, path);
  sqlite3_busy_timeout(raw, kBusyMilliseconds);
  return database;
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(database_.get(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                         &statement, nullptr) != SQLITE_OK)
    return sqlite_failure(database_.get(), sql);
  return Statement(database_.get(), statement);
}

Status Database::execute(const std::string& sql) {
  if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    return sqlite_failure(database_.get(), sql);
  return {};
}

Status Database::backup_to(const std::string& path) {
  // SQLite writes into an empty file, too. Hashes of tokens and the audit log are for the server's user alone.
  const Fd file(::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.valid())
    return failure(Code::kInvalidArgument, "cannot make {}: {}", path,
                   errno == EEXIST ? "it exists; a backup needs a new file" : errno_text(errno));
  XOE_ASSIGN(Statement copy, prepare("VACUUM INTO ?"));
  if (copy.bind(1, std::string_view(path)).run()) return {};
  const int error = sqlite3_errcode(database_.get()) & 0xff;
  const std::string why = sqlite3_errmsg(database_.get());
  const std::string_view advice = advice_for(error, sqlite3_system_errno(database_.get()));
  ::unlink(path.c_str());
  return failure(code_of(error), "cannot write the backup {}: {}{}", path, why, advice);
}

}  // namespace xoe::pool
