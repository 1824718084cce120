#include "pool/tests/sim/snapshot.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>

#include "core/base/error.h"
#include "core/describe/json.h"
#include "pool/state/database.h"

namespace xoe::pool::sim_tests {
namespace {

using describe::Json;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

// With the C library's files, which no other simulated process can come between. Returns the size.
std::size_t copy_file(const std::string& from, const std::string& to) {
  ::unlink(to.c_str());
  const File in(std::fopen(from.c_str(), "re"));
  if (in == nullptr) return 0;
  const File out(std::fopen(to.c_str(), "we"));
  std::array<char, 65536> part;
  std::size_t all = 0;
  for (std::size_t count = 0; (count = std::fread(part.data(), 1, part.size(), in.get())) > 0; all += count)
    if (std::fwrite(part.data(), 1, count, out.get()) != count) std::abort();
  return all;
}

template <class Visit>
Status each_row(Database& database, const char* sql, std::int64_t bound, Visit&& visit) {
  XOE_ASSIGN(Statement rows, database.prepare(sql));
  if (bound >= 0) rows.bind(1, bound);
  while (true) {
    XOE_ASSIGN(const bool more, rows.next());
    if (!more) return {};
    visit(rows);
  }
}

std::optional<Time> time_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return to_time(found->get<std::int64_t>());
}

LeaseRow lease_of(const Statement& row) {
  LeaseRow lease{.id = row.integer(0),
                 .user = row.text(1),
                 .team = row.text(2),
                 .state = row.text(3),
                 .why = row.text(7),
                 .begins = to_time(row.integer(4)),
                 .expires = to_time(row.integer(5)),
                 .ended = to_time(row.integer(6))};
  const Json ask = Json::parse(row.text(8), nullptr, false), progress = Json::parse(row.text(9), nullptr, false);
  lease.priority = ask.value("priority", 0);
  lease.purpose = ask.value("purpose", "");
  lease.reserved = time_in(ask, "at").has_value();
  lease.borrowed = progress.value("borrowed", false);
  lease.unclaimed = progress.value("unclaimed", false);
  lease.starts = time_in(progress, "starts");
  if (const auto asked = progress.find("give_way"); asked != progress.end() && asked->is_object())
    lease.ends_by = time_in(*asked, "by");
  return lease;
}

}  // namespace

// The begin of SQLite's index of the log has a counter of transactions, and the log's salt.
std::string commit_mark(const std::string& database) {
  constexpr std::size_t kHeader = 48;
  std::string mark(kHeader, '\0');
  const File index(std::fopen((database + "-shm").c_str(), "re"));
  if (index == nullptr || std::fread(mark.data(), 1, kHeader, index.get()) != kHeader) return {};
  return mark;
}

Result<Snapshot> read_snapshot(const std::string& database, const std::string& copy, std::int64_t after_event,
                               std::int64_t from_lease) {
  Snapshot read;
  ::unlink((copy + "-shm").c_str());
  read.bytes = copy_file(database, copy) + copy_file(database + "-wal", copy + "-wal");
  if (::access((copy + "-wal").c_str(), F_OK) != 0) ::unlink((copy + "-wal").c_str());
  XOE_ASSIGN(Database opened, Database::open(copy));
  XOE_TRY(each_row(opened, "SELECT number, at, actor, kind, lease, subject, why FROM event WHERE number > ?",
                   after_event, [&](const Statement& row) {
                     read.events.push_back({row.integer(0), to_time(row.integer(1)), row.text(2), row.text(3),
                                            row.integer(4), row.text(5), row.text(6)});
                   }));
  XOE_TRY(each_row(opened,
                   "SELECT id, user, team, state, begins, expires, ended, why, ask, progress FROM lease WHERE id >= ?",
                   from_lease, [&](const Statement& row) { read.leases.emplace(row.integer(0), lease_of(row)); }));
  XOE_TRY(each_row(opened, "SELECT lease, gpu, ended IS NULL FROM holding WHERE lease >= ?", from_lease,
                   [&](const Statement& row) {
                     LeaseRow& lease = read.leases[row.integer(0)];
                     lease.gpus.push_back(row.text(1));
                     lease.holds += static_cast<int>(row.integer(2));
                   }));
  XOE_TRY(each_row(opened, "SELECT coalesce(max(number), 0) FROM event", -1,
                   [&](const Statement& row) { read.lines = row.integer(0); }));
  XOE_TRY(each_row(opened, "SELECT user, sum(busy + idle) FROM usage GROUP BY user", -1,
                   [&](const Statement& row) { read.seen_use[row.text(0)] = Span(row.integer(1)); }));
  return read;
}

}  // namespace xoe::pool::sim_tests
