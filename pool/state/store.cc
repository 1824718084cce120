#include "pool/state/store.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/describe/json.h"
#include "pool/model/fields.h"
#include "pool/state/schema.h"

namespace xoe::pool {
namespace {

using describe::Json;

constexpr std::string_view kLeaseColumns =
    "id, user, team, token_hash, state, asked, begins, expires, ended, why, ask, progress";

// The part of a lease that is kept besides its columns and its request.
struct Progress {
  Lease lease = {};
  std::vector<std::string> planned = {};  // of one that waits
};
constexpr auto fields_of(const Progress*) {
  using describe::field;
  return std::tuple(field<&Progress::lease, &Lease::starts>("starts", {.always_stored = true}),
                    field<&Progress::planned>("planned", {.always_stored = true}),
                    field<&Progress::lease, &Lease::expiry_warned>("expiry_warned", {.always_stored = true}),
                    field<&Progress::lease, &Lease::logged, &Logged::expires>("told_expires"),
                    field<&Progress::lease, &Lease::logged, &Logged::renewed>("told_renewed"),
                    field<&Progress::lease, &Lease::logged, &Logged::promised>("told_promised", {.if_set = true}),
                    field<&Progress::lease, &Lease::idle_phase>("idle_phase", {.always_stored = true}),
                    field<&Progress::lease, &Lease::idle_phase_since>("idle_phase_since", {.always_stored = true}),
                    field<&Progress::lease, &Lease::idle_exempt>("idle_exempt", {.always_stored = true}),
                    field<&Progress::lease, &Lease::borrowed>("borrowed", {.always_stored = true}),
                    field<&Progress::lease, &Lease::unclaimed>("unclaimed"),
                    field<&Progress::lease, &Lease::give_way>("give_way", {.if_set = true}));
}

template <class T>
std::string stored_text(const T& object) {
  return describe::to_json(object, describe::Form::kStored).dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class T>
Status read_stored(std::string_view text, T& object) {
  const Json json = Json::parse(text, nullptr, false);
  return describe::from_stored_json(json, object);
}

// A row with kLeaseColumns; an open lease's GPUs are not among them.
Result<Lease> lease_of(const Statement& row) {
  Lease lease{.id = row.integer(0), .user = row.text(1), .team = row.text(2), .token_hash = row.text(3)};
  const std::string state = row.text(4);
  for (const LeaseState each : {LeaseState::kWaiting, LeaseState::kOpen, LeaseState::kEnded})
    if (state == name_of(each)) lease.state = each;
  lease.asked = to_time(row.integer(5));
  lease.begins = to_time(row.integer(6));
  lease.expires = to_time(row.integer(7));
  lease.ended = to_time(row.integer(8));
  lease.why = row.text(9);
  Progress progress{.lease = lease};
  progress.lease.logged.expires = lease.expires;  // leases of before this was kept have no other
  Status read = read_stored(row.text(10), progress.lease.request);
  if (read) read = read_stored(row.text(11), progress);
  if (!read)
    return failure(Code::kDataLoss, "the pool's database: lease {} cannot be read: {}", lease.id,
                   read.error().message());
  progress.lease.gpus = std::move(progress.planned);
  return std::move(progress.lease);
}

template <class... Values>
Status run_once(Database& database, std::string_view sql, const Values&... values) {
  XOE_ASSIGN(Statement statement, database.prepare(sql));
  return statement.bind_all(values...).run();
}

template <class Visit>
Status for_each_row(Statement& statement, Visit&& visit) {
  for (;;) {
    XOE_ASSIGN(const bool more, statement.next());
    if (!more) break;
    XOE_TRY(visit(statement));
  }
  statement.reset();
  return {};
}

}  // namespace

Result<User> user_of(const Statement& row) {
  const auto role = value_named<Role>(row.text(2));
  if (!role) return failure(Code::kDataLoss, "the pool's database: user {} has no role", row.text(0));
  return User{.name = row.text(0),
              .team = row.text(1),
              .role = *role,
              .token_hash = row.text(3),
              .max_gpus = static_cast<int>(row.integer(4)),
              .max_priority = static_cast<int>(row.integer(5)),
              .idle_exempt = row.integer(6) != 0};
}

Result<Store> Store::open(const std::string& path) {
  XOE_ASSIGN(Database database, Database::open(path));
  XOE_TRY(migrate(database));
  Store store(std::move(database), path);
  XOE_TRY(store.prepare());
  return store;
}

Status Store::prepare() {
  XOE_ASSIGN(save_lease_, database_.prepare(fmt::format(
                              "INSERT INTO lease ({}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(id) DO UPDATE SET "
                              "state=excluded.state, begins=excluded.begins, expires=excluded.expires, "
                              "ended=excluded.ended, why=excluded.why, ask=excluded.ask, progress=excluded.progress",
                              kLeaseColumns)));
  // A GPU that this lease holds already stays; one that another lease holds violates one_holder.
  XOE_ASSIGN(hold_,
             database_.prepare("INSERT INTO holding (lease, gpu, ended, vm) SELECT ?1, ?2, NULL, ?3 WHERE NOT EXISTS "
                               "(SELECT 1 FROM holding WHERE lease = ?1 AND gpu = ?2 AND ended IS NULL)"));
  XOE_ASSIGN(end_holdings_, database_.prepare("UPDATE holding SET ended = ? WHERE lease = ? AND ended IS NULL"));
  XOE_ASSIGN(append_,
             database_.prepare("INSERT INTO event (at, actor, kind, lease, subject, why) VALUES (?,?,?,?,?,?)"));
  XOE_ASSIGN(add_usage_, database_.prepare("INSERT INTO usage VALUES (?,?,?,?,?) ON CONFLICT DO UPDATE SET "
                                           "busy = busy + excluded.busy, idle = idle + excluded.idle"));
  XOE_ASSIGN(find_by_id_, database_.prepare(fmt::format("SELECT {} FROM lease WHERE id = ?", kLeaseColumns)));
  XOE_ASSIGN(find_by_token_,
             database_.prepare(fmt::format("SELECT {} FROM lease WHERE user = ? AND token_hash = ?", kLeaseColumns)));
  XOE_ASSIGN(last_of_, database_.prepare(kLastLeaseQuery));
  XOE_ASSIGN(held_by_, database_.prepare("SELECT gpu FROM holding WHERE lease = ? ORDER BY rowid"));
  return {};
}

void Store::rollback() {
  for (Statement* statement : {&save_lease_, &hold_, &end_holdings_, &append_, &add_usage_, &find_by_id_,
                               &find_by_token_, &held_by_, &last_of_})
    statement->reset();
  // Without an open transaction there is nothing to undo.
  static_cast<void>(database_.execute("ROLLBACK"));
}

Result<State> Store::load() {
  State state;
  XOE_TRY(load_hosts(state));
  XOE_TRY(load_people(state));
  XOE_TRY(load_leases(state));
  return state;
}

Status Store::load_hosts(State& state) {
  XOE_ASSIGN(Statement hosts, database_.prepare("SELECT name, heard, without, agent FROM host"));
  XOE_TRY(for_each_row(hosts, [&](const Statement& row) -> Status {
    state.hosts[row.text(0)] = {
        .name = row.text(0), .heard = to_time(row.integer(1)), .without = row.text(2), .agent = row.text(3)};
    return {};
  }));
  XOE_ASSIGN(Statement gpus, database_.prepare("SELECT uuid, host, name, pci, memory, nvlinks FROM gpu"));
  return for_each_row(gpus, [&](const Statement& row) -> Status {
    state.gpus[row.text(0)] = {.uuid = row.text(0),
                               .host = row.text(1),
                               .name = row.text(2),
                               .pci = row.text(3),
                               .memory = static_cast<std::uint64_t>(row.integer(4)),
                               .nvlinks = words_of(row.text(5))};
    return {};
  });
}

Status Store::load_people(State& state) {
  XOE_ASSIGN(Statement teams, database_.prepare("SELECT name, quota, may_borrow FROM team"));
  XOE_TRY(for_each_row(teams, [&](const Statement& row) -> Status {
    state.teams[row.text(0)] = {row.text(0), static_cast<int>(row.integer(1)), row.integer(2) != 0};
    return {};
  }));
  XOE_ASSIGN(Statement users, database_.prepare(fmt::format("SELECT {} FROM user", kUserColumns)));
  return for_each_row(users, [&](const Statement& row) -> Status {
    XOE_ASSIGN(state.users[row.text(0)], user_of(row));
    return {};
  });
}

Status Store::load_leases(State& state) {
  XOE_ASSIGN(Statement leases,
             database_.prepare(fmt::format("SELECT {} FROM lease WHERE state != 'ended' ORDER BY id", kLeaseColumns)));
  XOE_TRY(for_each_row(leases, [&](const Statement& row) -> Status {
    XOE_ASSIGN(Lease lease, lease_of(row));
    state.leases.emplace(lease.id, std::move(lease));
    return {};
  }));
  XOE_ASSIGN(Statement held, database_.prepare("SELECT lease, gpu FROM holding WHERE ended IS NULL ORDER BY rowid"));
  XOE_TRY(for_each_row(held, [&](const Statement& row) -> Status {
    const auto lease = state.leases.find(row.integer(0));
    if (lease == state.leases.end() || !lease->second.is_open())
      return failure(Code::kDataLoss, "the pool's database: lease {} holds a GPU and is not open", row.integer(0));
    lease->second.gpus.push_back(row.text(1));
    return {};
  }));
  XOE_ASSIGN(Statement last, database_.prepare("SELECT coalesce(max(id), 0) FROM lease"));
  return for_each_row(last, [&](const Statement& row) -> Status {
    state.next_lease = row.integer(0) + 1;
    return {};
  });
}

Status Store::save(const Host& host) {
  return run_once(database_,
                  "INSERT INTO host VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET heard = excluded.heard, "
                  "without = excluded.without, agent = excluded.agent",
                  std::string_view(host.name), to_number(host.heard), std::string_view(host.without),
                  std::string_view(host.agent));
}

Status Store::save(const Gpu& gpu) {
  return run_once(database_, "INSERT OR REPLACE INTO gpu VALUES (?,?,?,?,?,?)", std::string_view(gpu.uuid),
                  std::string_view(gpu.host), std::string_view(gpu.name), std::string_view(gpu.pci),
                  static_cast<std::int64_t>(gpu.memory),
                  std::string_view(fmt::format("{}", fmt::join(gpu.nvlinks, " "))));
}

Status Store::save(const Team& team) {
  return run_once(database_, "INSERT OR REPLACE INTO team VALUES (?,?,?)", std::string_view(team.name),
                  std::int64_t{team.quota}, std::int64_t{team.may_borrow});
}

Status Store::save(const User& user) {
  return run_once(database_,
                  "INSERT INTO user VALUES (?,?,?,?,?,?,?) ON CONFLICT(name) DO UPDATE SET team = excluded.team, "
                  "role = excluded.role, token_hash = excluded.token_hash, max_gpus = excluded.max_gpus, "
                  "max_priority = excluded.max_priority, idle_exempt = excluded.idle_exempt",
                  std::string_view(user.name), std::string_view(user.team), name_of(user.role),
                  std::string_view(user.token_hash), std::int64_t{user.max_gpus}, std::int64_t{user.max_priority},
                  std::int64_t{user.idle_exempt});
}

Status Store::remove_user(const std::string& name) {
  return run_once(database_, "DELETE FROM user WHERE name = ?", std::string_view(name));
}

Status Store::remove_gpu(const std::string& uuid) {
  return run_once(database_, "DELETE FROM gpu WHERE uuid = ?", std::string_view(uuid));
}

Status Store::remove_host(const std::string& name) {
  return run_once(database_, "DELETE FROM host WHERE name = ?", std::string_view(name));
}

Status Store::save(const Lease& lease) {
  XOE_TRY(save_lease_
              .bind_all(lease.id, std::string_view(lease.user), std::string_view(lease.team),
                        std::string_view(lease.token_hash), name_of(lease.state), to_number(lease.asked),
                        to_number(lease.begins), to_number(lease.expires), to_number(lease.ended),
                        lease.state == LeaseState::kEnded ? std::string_view(lease.why) : std::string_view(),
                        std::string_view(stored_text(lease.request)),
                        std::string_view(stored_text(Progress{
                            .lease = lease, .planned = lease.is_waiting() ? lease.gpus : std::vector<std::string>()})))
              .run());
  if (lease.is_open())
    for (const std::string& gpu : lease.gpus)
      XOE_TRY(hold_.bind_all(lease.id, std::string_view(gpu), std::string_view(lease.request.vm)).run());
  if (lease.state == LeaseState::kEnded) XOE_TRY(end_holdings_.bind_all(to_number(lease.ended), lease.id).run());
  return {};
}

Status Store::append(const Event& event) {
  return append_
      .bind_all(to_number(event.at), std::string_view(event.actor), std::string_view(event.kind), event.lease,
                std::string_view(event.subject), std::string_view(event.why))
      .run();
}

Status Store::add_usage(const UsageRow& usage) {
  return add_usage_
      .bind_all(to_number(usage.hour), std::string_view(usage.user), std::string_view(usage.team), usage.busy.count(),
                usage.idle.count())
      .run();
}

Status Store::save(const ClockMark& mark) {
  XOE_TRY(database_.execute("DELETE FROM clock"));
  XOE_ASSIGN(Statement insert, database_.prepare("INSERT INTO clock VALUES (?,?)"));
  return insert.bind_all(std::string_view(mark.machine), mark.offset.count()).run();
}

Result<std::optional<ClockMark>> Store::clock_mark() {
  XOE_ASSIGN(Statement query, database_.prepare("SELECT machine, offset FROM clock"));
  std::optional<ClockMark> mark;
  XOE_TRY(for_each_row(query, [&](const Statement& row) -> Status {
    mark = ClockMark{row.text(0), Span(row.integer(1))};
    return {};
  }));
  return mark;
}

Result<std::optional<Lease>> Store::find_lease(std::int64_t id) {
  std::optional<Lease> found;
  find_by_id_.bind(1, id);
  XOE_TRY(for_each_row(find_by_id_, [&](const Statement& row) -> Status {
    XOE_ASSIGN(found, lease_of(row));
    return {};
  }));
  if (!found || found->is_waiting()) return found;
  held_by_.bind(1, id);
  XOE_TRY(for_each_row(held_by_, [&](const Statement& row) -> Status {
    found->gpus.push_back(row.text(0));
    return {};
  }));
  return found;
}

Result<std::optional<Lease>> Store::find_lease(const std::string& user, const std::string& token_hash) {
  std::optional<std::int64_t> id;
  find_by_token_.bind_all(std::string_view(user), std::string_view(token_hash));
  XOE_TRY(for_each_row(find_by_token_, [&](const Statement& row) -> Status {
    id = row.integer(0);
    return {};
  }));
  if (!id) return std::optional<Lease>();
  return find_lease(*id);
}

Result<std::optional<Lease>> Store::last_lease_of(const std::string& gpu, const std::string& vm) {
  std::int64_t id = 0;
  last_of_.bind_all(std::string_view(gpu), std::string_view(vm));
  XOE_TRY(for_each_row(last_of_, [&](const Statement& row) -> Status {
    id = row.integer(0);
    return {};
  }));
  if (id == 0) return std::optional<Lease>();
  return find_lease(id);
}

Result<std::vector<Event>> Store::events(std::int64_t after, int limit) {
  XOE_ASSIGN(Statement select, database_.prepare("SELECT number, at, actor, kind, lease, subject, why FROM event "
                                                 "WHERE number > ? ORDER BY number LIMIT ?"));
  select.bind_all(after, std::int64_t{limit});
  std::vector<Event> events;
  XOE_TRY(for_each_row(select, [&](const Statement& row) -> Status {
    events.push_back(
        {row.integer(0), to_time(row.integer(1)), row.text(2), row.text(3), row.integer(4), row.text(5), row.text(6)});
    return {};
  }));
  return events;
}

Result<std::int64_t> Store::last_event() {
  XOE_ASSIGN(Statement select, database_.prepare("SELECT coalesce(max(number), 0) FROM event"));
  XOE_ASSIGN([[maybe_unused]] const bool row, select.next());
  return select.integer(0);
}

Result<std::vector<UsageRow>> usage_of(Database& database, Time from, Time to, Time now) {
  std::map<std::tuple<Time, std::string, std::string>, UsageRow> rows;
  const auto check_count = [&]() -> Status {
    if (rows.size() <= kMostUsageRows) return {};
    return failure(Code::kInvalidArgument, "the usage of this time has more than {} rows: ask for fewer days",
                   kMostUsageRows);
  };
  const auto row_of = [&](Time hour, const std::string& team, const std::string& user) -> UsageRow& {
    return rows.try_emplace({hour, team, user}, UsageRow{.hour = hour, .user = user, .team = team}).first->second;
  };
  XOE_ASSIGN(Statement seen,
             database.prepare("SELECT hour, user, team, busy, idle FROM usage WHERE hour >= ? AND hour < ? LIMIT ?"));
  seen.bind_all(to_number(from), to_number(to), std::int64_t{kMostUsageRows + 1});
  XOE_TRY(for_each_row(seen, [&](const Statement& row) -> Status {
    UsageRow& usage = row_of(to_time(row.integer(0)), row.text(2), row.text(1));
    usage.busy = Span(row.integer(3));
    usage.idle = Span(row.integer(4));
    return check_count();
  }));
  // Held time follows from the leases, so it is exact.
  XOE_ASSIGN(Statement held,
             database.prepare("SELECT user, team, begins, iif(state = 'open', ?1, lease.ended), count(*) FROM lease "
                              "JOIN holding ON lease = id WHERE begins < ?3 AND (lease.ended > ?2 OR lease.ended = 0) "
                              "AND state != 'waiting' "
                              "GROUP BY id"));
  held.bind_all(to_number(now), to_number(from), to_number(to));
  XOE_TRY(for_each_row(held, [&](const Statement& row) -> Status {
    const Time end = std::min(to_time(row.integer(3)), to);
    for (Time at = std::max(to_time(row.integer(2)), from); at < end;) {
      const Time hour = hour_of(at);
      const Time next = std::min(hour + std::chrono::hours(1), end);
      row_of(hour, row.text(1), row.text(0)).held += (next - at) * row.integer(4);
      XOE_TRY(check_count());
      at = next;
    }
    return {};
  }));
  std::vector<UsageRow> all;
  all.reserve(rows.size());
  for (auto& [key, row] : rows) all.push_back(std::move(row));
  return all;
}

}  // namespace xoe::pool
