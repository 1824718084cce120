#include "pool/state/schema.h"

#include <array>

#include "core/base/error.h"

namespace xoe::pool {
namespace {

// Step n makes version n + 1. A step is never edited once it was released: a new one follows it.
constexpr std::array<const char*, 5> kSteps = {
    R"(
CREATE TABLE host (name TEXT PRIMARY KEY, heard INTEGER NOT NULL, without TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE gpu (uuid TEXT PRIMARY KEY, host TEXT NOT NULL REFERENCES host(name), name TEXT NOT NULL, pci TEXT NOT NULL,
  memory INTEGER NOT NULL, nvlinks TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE team (name TEXT PRIMARY KEY, quota INTEGER NOT NULL, may_borrow INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE user (name TEXT PRIMARY KEY, team TEXT NOT NULL, role TEXT NOT NULL, token_hash TEXT NOT NULL UNIQUE,
  max_gpus INTEGER NOT NULL, max_priority INTEGER NOT NULL, idle_exempt INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- From the moment of asking to the end. `ask` and `progress` are JSON: no query looks into them.
CREATE TABLE lease (id INTEGER PRIMARY KEY, user TEXT NOT NULL, team TEXT NOT NULL, token_hash TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'open', 'ended')), asked INTEGER NOT NULL, begins INTEGER NOT NULL,
  expires INTEGER NOT NULL, ended INTEGER NOT NULL, why TEXT NOT NULL, ask TEXT NOT NULL, progress TEXT NOT NULL) STRICT;
CREATE INDEX lease_not_ended ON lease(id) WHERE state != 'ended';
-- The token is the key that makes asking twice the same as asking once.
CREATE UNIQUE INDEX one_lease_for_a_token ON lease(user, token_hash);

-- A GPU that an open lease holds. The index is the pool's first invariant: no GPU has two holders.
CREATE TABLE holding (lease INTEGER NOT NULL REFERENCES lease(id), gpu TEXT NOT NULL, ended INTEGER) STRICT;
CREATE UNIQUE INDEX one_holder ON holding(gpu) WHERE ended IS NULL;
CREATE INDEX holding_of_lease ON holding(lease);

-- The audit log.
CREATE TABLE event (number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, actor TEXT NOT NULL,
  kind TEXT NOT NULL, lease INTEGER NOT NULL, subject TEXT NOT NULL, why TEXT NOT NULL) STRICT;
CREATE TRIGGER events_stay BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER events_stand BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

-- Observed GPU-milliseconds by hour; what was held follows from the leases.
CREATE TABLE usage (hour INTEGER NOT NULL, user TEXT NOT NULL, team TEXT NOT NULL,
  busy INTEGER NOT NULL, idle INTEGER NOT NULL, PRIMARY KEY (hour, user, team)) STRICT, WITHOUT ROWID;
)",
    // Which lease had a GPU last.
    "CREATE INDEX holding_of_gpu ON holding(gpu, lease);",
    // Whose reports of a host are taken; what was held in a while.
    "ALTER TABLE host ADD COLUMN agent TEXT NOT NULL DEFAULT '';"
    "CREATE INDEX lease_by_end ON lease(ended);",
    // Which lease for a virtual machine had a GPU last: one row to read.
    "ALTER TABLE holding ADD COLUMN vm TEXT NOT NULL DEFAULT '';"
    "UPDATE holding SET vm = coalesce((SELECT json_extract(ask, '$.vm') "
    "FROM lease WHERE id = holding.lease), '');"
    "DROP INDEX holding_of_gpu;"
    "CREATE INDEX holding_for_vm ON holding(gpu, vm, lease);",
    // How the machine's clock was set when a server ran last.
    "CREATE TABLE clock (machine TEXT NOT NULL, offset INTEGER NOT NULL) STRICT;"};

}  // namespace

Status migrate(Database& database) {
  XOE_ASSIGN(Statement version, database.prepare("PRAGMA user_version"));
  XOE_ASSIGN([[maybe_unused]] const bool row, version.next());
  const auto found = static_cast<std::size_t>(version.integer(0));
  version.reset();
  if (found > kSteps.size())
    return failure(Code::kUnsupported, "the pool's database is of version {}; this Xoe knows up to {}: use a newer Xoe",
                   found, kSteps.size());
  for (std::size_t step = found; step < kSteps.size(); ++step)
    XOE_TRY(
        database.execute(fmt::format("BEGIN IMMEDIATE; {} PRAGMA user_version = {}; COMMIT", kSteps[step], step + 1)));
  return {};
}

}  // namespace xoe::pool
