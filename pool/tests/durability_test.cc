// Acknowledged leases survive: kills of the process that has the pool, and power cuts.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <random>
#include <set>
#include <thread>

#include "core/base/fd.h"
#include "core/base/text.h"
#include "pool/core/command_queue.h"
#include "pool/state/store_reader.h"
#include "pool/tests/pool_fixture.h"
#include "pool/tests/power_vfs.h"

namespace xoe::pool::testing {
namespace {

constexpr int kClients = 64;
constexpr int kGpus = 24;
const User kAdmin{.name = "root", .role = Role::kAdmin};

User client_user(int client) {
  return {.name = "user" + std::to_string(client), .team = "x", .token_hash = "hash" + std::to_string(client)};
}

// --- the reference: the audit log, played from its begin ---

struct Replayed {
  std::map<std::int64_t, std::set<std::string>> open;
  std::set<std::int64_t> waiting;
};

Replayed replay(Store& store) {
  Replayed result;
  std::map<std::string, std::int64_t> holders;
  std::int64_t last = 0;
  for (std::vector<Event> some; !(some = store.events(last, 1000).value()).empty();)
    for (const Event& event : some) {
      EXPECT_EQ(event.number, last + 1) << "a line of the audit log is missing";
      last = event.number;
      const auto listed = event.subject.empty() ? std::vector<std::string>() : split_text(event.subject, ',');
      if (event.kind == "asked") result.waiting.insert(event.lease);
      if (event.kind == "granted") {
        result.waiting.erase(event.lease);
        for (const std::string& gpu : listed) {
          EXPECT_TRUE(holders.emplace(gpu, event.lease).second) << gpu << " has two holders";
          result.open[event.lease].insert(gpu);
        }
      }
      if (event.kind == "ended") {
        result.waiting.erase(event.lease);
        for (const std::string& gpu : listed) EXPECT_EQ(holders.erase(gpu), 1U);
        result.open.erase(event.lease);
      }
    }
  return result;
}

void expect_state_is_that_of_the_log(Pool& pool) {
  const Replayed log = replay(pool.store());
  std::map<std::int64_t, std::set<std::string>> open;
  std::set<std::int64_t> waiting;
  for (const auto& [id, lease] : pool.state().leases) {
    if (lease.is_open()) open[id] = {lease.gpus.begin(), lease.gpus.end()};
    if (lease.is_waiting()) waiting.insert(id);
  }
  EXPECT_EQ(open, log.open);
  EXPECT_EQ(waiting, log.waiting);
}

void set_up(Pool& pool) {
  ASSERT_TRUE(pool.begin(system_now()));
  if (pool.state().users.empty()) {
    ASSERT_TRUE(pool.set_team(kAdmin, {.name = "x", .quota = kGpus}));
    for (int i = 0; i < kClients; ++i) ASSERT_TRUE(pool.set_user(kAdmin, client_user(i)));
  }
  for (const char* host : {"a", "b", "c"}) ASSERT_TRUE(pool.report(report_of(host, kGpus / 3)));
  ASSERT_TRUE(pool.finish());
}

// --- clients ---

// What became known to a client, in lines for the one who checks: "granted ID GPU...", "releases ID", "released ID".
class Client {
 public:
  Client(CommandQueue& queue, int number, unsigned seed, int out)
      : queue_(queue),
        user_(client_user(number)),
        random_(seed * 1000 + number),
        out_(out),
        name_(fmt::format("c{}s{}", number, seed)) {}

  void run(int operations) {
    while (operations-- > 0) {
      const int action = pick(8);
      if (held_.size() < 2 && action < 5)
        acquire();
      else if (!held_.empty() && action < 7)
        release();
      else if (!held_.empty())
        try_a_wrong_token();
    }
    while (!held_.empty()) release();
  }

 private:
  struct Held {
    std::int64_t id;
    std::string token;
  };
  int pick(int count) { return std::uniform_int_distribution(0, count - 1)(random_); }

  void tell(const std::string& line) {
    if (::write(out_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::_Exit(3);
  }

  void acquire() {
    const std::string token = fmt::format("{:x<40}", name_ + "n" + std::to_string(++tokens_) + "n");
    const LeaseRequest request{.gpus = 1 + pick(3), .any_host = pick(2) == 0, .wait = pick(4) == 0};
    std::optional<Lease> lease;
    for (int attempt = 0; attempt < 2; ++attempt) {  // as if the first reply had been lost
      Result<std::int64_t> id = failure(Code::kInternal, "");
      const auto done = queue_.change([&](Pool& pool) { id = pool.acquire(user_, request, token); },
                                      [&](Pool& pool) {
                                        if (id) lease = pool.lease(*id).value();
                                      });
      if (!done || !id) {
        tell("failed " + (done ? id.error().message() : done.error().message()) + "\n");
        return;
      }
      if (pick(4) != 0) break;
    }
    if (lease->is_open()) tell(fmt::format("granted {} {}\n", lease->id, fmt::join(lease->gpus, " ")));
    if (lease->is_waiting()) tell(fmt::format("waits {}\n", lease->id));
    if (lease->state != LeaseState::kEnded) held_.push_back({lease->id, token});
  }

  void release() {
    const auto at = held_.begin() + pick(static_cast<int>(held_.size()));
    tell(fmt::format("releases {}\n", at->id));
    Status released;
    const auto done = queue_.change([&](Pool& pool) { released = pool.release(user_, at->id, at->token, "done"); }, {});
    tell(done && released ? fmt::format("released {}\n", at->id) : "failed to release\n");
    held_.erase(at);
  }

  void try_a_wrong_token() {
    Status released;
    const Held& held = held_[0];
    const auto done =
        queue_.change([&](Pool& pool) { released = pool.release(user_, held.id, held.token + "y", "a thief"); }, {});
    if (!done || released) tell("failed: the token of another was accepted\n");
  }

  CommandQueue& queue_;
  User user_;
  std::mt19937 random_;
  int out_;
  std::string name_;
  std::vector<Held> held_;
  int tokens_ = 0;
};

void run_clients(CommandQueue& queue, unsigned seed, int out, int operations) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < kClients; ++i) threads.emplace_back([&, i] { Client(queue, i, seed, out).run(operations); });
}

struct Acknowledged {
  std::map<std::int64_t, std::set<std::string>> open;
  std::set<std::int64_t> waiting, releasing, released;
  int lines = 0;

  void take(const std::string& text) {
    for (const std::string& line : split_text(text, '\n')) {
      const auto words = words_of(line);
      if (words.size() < 2) continue;
      ++lines;
      ASSERT_NE(words[0], "failed") << line;
      const std::int64_t id = std::stoll(words[1]);
      if (words[0] == "granted") open[id] = {words.begin() + 2, words.end()};
      if (words[0] == "waits") waiting.insert(id);
      if (words[0] == "releases") releasing.insert(id);
      if (words[0] == "released") released.insert(id);
    }
  }

  void expect_kept_in(Pool& pool) const {
    for (const auto& [id, gpus] : open) {
      const Lease lease = pool.lease(id).value();
      ASSERT_EQ(std::set(lease.gpus.begin(), lease.gpus.end()), gpus) << "lease " << id;
      if (!releasing.contains(id)) {
        ASSERT_TRUE(lease.is_open()) << "lease " << id << " is lost: " << lease.why;
      }
    }
    for (const std::int64_t id : waiting) {
      if (!releasing.contains(id)) {
        ASSERT_NE(pool.lease(id).value().state, LeaseState::kEnded) << "lease " << id << " is lost";
      }
    }
    for (const std::int64_t id : released) ASSERT_EQ(pool.lease(id).value().state, LeaseState::kEnded);
  }
};

std::string read_all(int fd) {
  std::string text;
  char chunk[65536];
  for (ssize_t count = 0; (count = ::read(fd, chunk, sizeof chunk)) > 0;) text.append(chunk, count);
  return text;
}

// Returns how many lines of clients were checked.
int kill_many_times(int kills, int operations) {
  Scratch scratch;
  const std::string path = scratch.file("pool.db");
  std::mt19937 random(1);
  Acknowledged known;
  for (int round = 0; round <= kills && !::testing::Test::HasFailure(); ++round) {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(pipe[0]);
      Pool pool = open_pool(path);
      set_up(pool);
      CommandQueue queue(std::move(pool), system_now);
      run_clients(queue, static_cast<unsigned>(round), pipe[1], operations);
      std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    ::close(pipe[1]);
    std::jthread killer;
    if (round < kills)
      killer = std::jthread([child, delay = std::uniform_int_distribution(20, 400)(random)] {
        std::this_thread::sleep_for(std::chrono::milliseconds(delay));
        ::kill(child, SIGKILL);
      });
    known.take(read_all(pipe[0]));
    ::close(pipe[0]);
    if (killer.joinable()) killer.join();
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "status " << status;
    Pool pool = open_pool(path);
    expect_state_is_that_of_the_log(pool);
    known.expect_kept_in(pool);
    // The clients of this round are gone; an admin makes room for those of the next.
    EXPECT_TRUE(pool.begin(system_now()));
    std::vector<std::int64_t> left;
    for (const auto& [id, lease] : pool.state().leases) left.push_back(id);
    for (const std::int64_t id : left) {
      EXPECT_TRUE(pool.revoke(kAdmin, id, "its client was killed"));
      known.releasing.insert(id);
    }
    EXPECT_TRUE(pool.finish());
  }
  return known.lines;
}

TEST(Kill, NoAcknowledgedLeaseIsLostAndNoGpuHasTwoHolders) { EXPECT_GT(kill_many_times(6, 40), 1000); }
TEST(Kill, FiftyTimesAHundredThousandOperations) { EXPECT_GT(kill_many_times(50, 100000 / kClients), 20000); }

TEST(Contention, ManyClientsShareTurns) {
  Scratch scratch;
  Pool pool = open_pool(scratch.file("pool.db"));
  set_up(pool);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  Acknowledged known;
  std::string lines;
  std::jthread reader([&] { lines = read_all(pipe[0]); });
  {
    CommandQueue queue(std::move(pool), system_now);
    run_clients(queue, 1, pipe[1], XOE_SANITIZED ? 10 : 50);
  }
  ::close(pipe[1]);
  reader.join();
  ::close(pipe[0]);
  known.take(lines);
  Pool again = open_pool(scratch.file("pool.db"));
  expect_state_is_that_of_the_log(again);
  known.expect_kept_in(again);
  EXPECT_TRUE(again.state().leases.empty());
}

std::string summary_of(const Pool& pool) {
  std::string text;
  for (const auto& [id, lease] : pool.state().leases)
    text += fmt::format("{} {} {} {} {}\n", id, lease.user, name_of(lease.state), to_number(lease.expires),
                        fmt::join(lease.gpus, " "));
  return text;
}

// --- power cuts: what the files are at some moment, with what was not flushed lost at random ---

TEST(PowerCut, EveryStateIsThatAfterTheLastCommit) {
  Scratch scratch;
  const std::string path = scratch.file("pool.db");
  std::mt19937 random(3);
  const auto pick = [&](int count) { return std::uniform_int_distribution(0, count - 1)(random); };
  Pool pool = open_pool(path);
  set_up(pool);
  Time now = system_now();
  std::vector<std::pair<std::int64_t, std::string>> held;
  std::string committed = summary_of(pool);
  std::uintmax_t flushed = 0;
  for (int turn = 0; turn < 200; ++turn) {
    now += seconds(1);
    ASSERT_TRUE(pool.begin(now));
    for (const char* host : {"a", "b", "c"}) ASSERT_TRUE(pool.report(report_of(host, kGpus / 3)));
    for (int i = pick(4); i > 0; --i) {
      const std::string token = token_number(turn * 10 + i);
      if (pick(2) == 0 || held.empty()) {
        const auto id =
            pool.acquire(client_user(0), {.gpus = 1 + pick(3), .duration = seconds(5 + pick(50)), .wait = true}, token);
        if (id) held.emplace_back(*id, token);
      } else {
        const auto [id, its_token] = held[static_cast<std::size_t>(pick(static_cast<int>(held.size())))];
        ASSERT_TRUE(pool.release(client_user(0), id, its_token, "done"));
      }
    }
    const auto cut = [&] {
      const std::string copy = scratch.file("copy.db");
      for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(copy + suffix);
      std::filesystem::copy_file(path, copy);
      if (std::filesystem::exists(path + "-wal")) {
        std::filesystem::copy_file(path + "-wal", copy + "-wal");
        const auto size = std::filesystem::file_size(copy + "-wal");
        if (size > flushed)
          std::filesystem::resize_file(
              copy + "-wal", flushed + static_cast<std::uintmax_t>(pick(static_cast<int>(size - flushed + 1))));
      }
      Pool recovered = open_pool(copy);
      expect_state_is_that_of_the_log(recovered);
      EXPECT_EQ(summary_of(recovered), committed);
    };
    if (pick(8) == 0) cut();  // in the middle of the turn
    ASSERT_TRUE(pool.finish());
    committed = summary_of(pool);
    flushed = std::filesystem::exists(path + "-wal") ? std::filesystem::file_size(path + "-wal") : 0;
    if (pick(8) == 0) cut();
    if (HasFailure()) return;
  }
}

// At any write or flush, of the log or of a checkpoint: what was acknowledged is there, and nothing is half there.
TEST(PowerCut, UnflushedWritesMayBeLostTornOrReordered) {
  Scratch scratch(memory_folder());
  std::mt19937 random(5);
  const auto pick = [&](int count) { return std::uniform_int_distribution(0, count - 1)(random); };
  struct Cut {
    PowerVfs::Image image;
    std::size_t acknowledged;
  };
  std::vector<Cut> cuts;
  std::vector<std::string> states;  // after each turn
  int in_checkpoints = 0;
  PowerVfs device(6);
  {
    Pool pool = open_pool(scratch.file("pool.db"));
    set_up(pool);
    states.push_back(summary_of(pool));
    device.on_change = [&](const std::string& path, bool flush) {
      const bool checkpoint = path.ends_with(".db");
      if (pick(checkpoint ? 20 : flush ? 4 : 30) != 0) return;
      in_checkpoints += checkpoint ? 1 : 0;
      cuts.push_back({device.cut(), states.size() - 1});
    };
    Time now = system_now();
    for (int turn = 0; turn < 600; ++turn) {
      now += seconds(1);
      ASSERT_TRUE(pool.begin(now));
      for (const char* host : {"a", "b", "c"}) ASSERT_TRUE(pool.report(report_of(host, kGpus / 3)));
      for (int i = pick(4); i > 0; --i)
        ASSERT_TRUE(pool.acquire(client_user(0),
                                 {.gpus = 1 + pick(3), .duration = seconds(2 + pick(9)), .wait = pick(2) == 0},
                                 token_number(turn * 10 + i)));
      ASSERT_TRUE(pool.finish());
      states.push_back(summary_of(pool));
    }
  }
  device.step_aside();
  const std::string copy = scratch.file("copy.db");
  for (const Cut& cut : cuts) {
    PowerVfs::put(cut.image, copy);
    Pool recovered = open_pool(copy);
    expect_state_is_that_of_the_log(recovered);
    // A turn that was being committed may be there or not.
    const std::string state = summary_of(recovered);
    const bool next = cut.acknowledged + 1 < states.size() && state == states[cut.acknowledged + 1];
    ASSERT_TRUE(state == states[cut.acknowledged] || next) << "after turn " << cut.acknowledged << "\n" << state;
  }
  EXPECT_GT(cuts.size(), 100U);
  EXPECT_GT(in_checkpoints, 5);
}

TEST(FullDisk, UndoesTheTurnAndThePoolGoesOnWhenThereIsRoom) {
  Scratch scratch;
  std::signal(SIGXFSZ, SIG_IGN);
  Pool pool = open_pool(scratch.file("pool.db"));
  set_up(pool);
  CommandQueue queue(std::move(pool), system_now);
  Result<std::int64_t> id = failure(Code::kInternal, "");
  const auto acquire = [&](int number) {
    return queue.change([&](Pool& of) { id = of.acquire(client_user(0), {}, token_number(number)); }, {});
  };
  ASSERT_TRUE(acquire(1));
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none = {1, before.rlim_max};  // no file grows
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const Status refused = acquire(2);
  Status copied;
  queue.read([&](Pool& of) { copied = of.store().backup_to(scratch.file("copy.db")); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              ::testing::HasSubstr("the pool's database " + scratch.file("pool.db") + " cannot be used: "));
  EXPECT_THAT(refused.error().message(), ::testing::Not(::testing::HasSubstr("INSERT")));
  ASSERT_FALSE(copied);
  EXPECT_THAT(copied.error().message(), ::testing::StartsWith("cannot write the backup " + scratch.file("copy.db")));
  EXPECT_THAT(copied.error().message(), ::testing::HasSubstr("disk"));
  EXPECT_THAT(copied.error().message(), ::testing::Not(::testing::HasSubstr("VACUUM")));
  EXPECT_FALSE(std::filesystem::exists(scratch.file("copy.db")));
  queue.read([](Pool& of) { EXPECT_EQ(of.state().leases.size(), 1U); });
  ASSERT_TRUE(acquire(2));
  EXPECT_EQ(id.value(), 2);
  queue.read([](Pool& of) { expect_state_is_that_of_the_log(of); });
}

TEST(Invariant, TheDatabaseItselfRefusesASecondHolder) {
  Scratch scratch;
  Store store = Store::open(scratch.file("pool.db")).value();
  ASSERT_TRUE(store.begin());
  Lease lease{.id = 1, .user = "ann", .token_hash = "1", .state = LeaseState::kOpen, .gpus = {"GPU-1"}};
  for (int i = 0; i < 2; ++i) {
    const auto saved = store.save(lease);
    ASSERT_TRUE(saved) << saved.error().message();
  }
  lease.id = 2;
  lease.token_hash = "2";
  EXPECT_THAT(store.save(lease).error().message(), ::testing::HasSubstr("UNIQUE constraint failed: holding.gpu"));
  store.rollback();
  ASSERT_TRUE(store.append({.kind = "asked"}));
  auto database = Database::open(scratch.file("pool.db"));
  EXPECT_THAT(database.error().message(), ::testing::HasSubstr("another server has the pool's database"));
}

TEST(Invariant, TheAuditLogCannotBeChanged) {
  Scratch scratch;
  const std::string path = scratch.file("pool.db");
  ASSERT_TRUE(Store::open(path).value().append({.kind = "asked"}));
  Database database = Database::open(path).value();
  for (const char* sql : {"DELETE FROM event", "UPDATE event SET actor = 'eve'"})
    EXPECT_THAT(database.execute(sql).error().message(), ::testing::HasSubstr("append-only"));
}

// --- no descriptor is left ---

// In a process of its own, whose limit is low.
void run_without_descriptors(const std::string& path, const std::string& other) {
  Pool pool = open_pool(path);
  set_up(pool);
  StoreReader reader = StoreReader::open(path).value();
  CommandQueue queue(std::move(pool), system_now);
  const rlimit few = {128, 128};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Fd> all;
  for (Fd next(::open("/dev/null", O_RDONLY)); next.valid(); next = Fd(::open("/dev/null", O_RDONLY)))
    all.push_back(std::move(next));
  ASSERT_EQ(errno, EMFILE);
  // Turns need no further file, nor do those that put the log into the database.
  for (int i = 0; i < 600; ++i) {
    Result<std::int64_t> id = failure(Code::kInternal, "no turn");
    ASSERT_TRUE(queue.change([&](Pool& of) { id = of.acquire(client_user(0), {}, token_number(i)); }, {}));
    ASSERT_TRUE(id);
    ASSERT_TRUE(queue.change([&](Pool& of) { ASSERT_TRUE(of.release(client_user(0), *id, {}, "done")); }, {}));
  }
  // What failed is looked at when there are descriptors again: gtest's matchers, and UBSan's look at their types, need
  // some.
  std::vector<std::string> told;
  const auto keep_told = [&](const auto& failed) {
    ASSERT_FALSE(failed);
    told.push_back(failed.error().message());
  };
  Status copied;
  queue.read([&](Pool& of) { copied = of.store().backup_to(other); });
  keep_told(copied);
  EXPECT_FALSE(std::filesystem::exists(other));
  keep_told(Store::open(other));
  keep_told(reader.usage(Time(), system_now(), system_now()));  // its first look opens the log
  queue.read([](Pool& of) { ASSERT_TRUE(of.abandon()); });
  all.resize(all.size() - 8);
  EXPECT_THAT(told, ::testing::AllOf(::testing::SizeIs(3),
                                     ::testing::Each(::testing::AnyOf(::testing::HasSubstr("Too many open files"),
                                                                      ::testing::HasSubstr("ulimit -n")))));
  queue.read([&](Pool& of) { copied = of.store().backup_to(other); });
  ASSERT_TRUE(copied) << copied.error().message();
  EXPECT_FALSE(reader.usage(Time(), system_now(), system_now())->empty());
  queue.read([](Pool& of) { expect_state_is_that_of_the_log(of); });
}

TEST(NoDescriptors, ThePoolGoesOnAndSaysWhatIsMissing) {
  Scratch scratch(memory_folder());
  const pid_t child = ::fork();
  if (child == 0) {
    run_without_descriptors(scratch.file("pool.db"), scratch.file("other.db"));
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_state_is_that_of_the_log(*std::make_unique<Pool>(open_pool(scratch.file("other.db"))));
}

// --- which lease had a GPU last ---

// Steps of SQLite's machine that the answer takes.
int steps_of_last_lease(const std::string& path, const char* vm) {
  sqlite3* database = nullptr;
  sqlite3_stmt* query = nullptr;
  EXPECT_EQ(sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  EXPECT_EQ(
      sqlite3_prepare_v2(database, kLastLeaseQuery.data(), static_cast<int>(kLastLeaseQuery.size()), &query, nullptr),
      SQLITE_OK);
  sqlite3_bind_text(query, 1, "GPU-1", -1, SQLITE_STATIC);
  sqlite3_bind_text(query, 2, vm, -1, SQLITE_STATIC);
  sqlite3_step(query);
  const int steps = sqlite3_stmt_status(query, SQLITE_STMTSTATUS_VM_STEP, 0);
  sqlite3_finalize(query);
  sqlite3_close(database);
  return steps;
}

TEST(History, TheLastLeaseOfAGpuIsOneLookUp) {
  Scratch scratch(memory_folder());
  const std::string path = scratch.file("pool.db");
  Store store = Store::open(path).value();
  std::int64_t id = 0;
  const auto add = [&](int leases) {
    ASSERT_TRUE(store.begin());
    for (int i = 0; i < leases; ++i) {
      Lease lease{.id = ++id, .user = "ann", .token_hash = std::to_string(id), .gpus = {"GPU-1"}};
      lease.request.vm = id % 3 == 0 ? "python" : "";
      for (const LeaseState state : {LeaseState::kOpen, LeaseState::kEnded}) {
        lease.state = state;
        ASSERT_TRUE(store.save(lease));
      }
    }
    ASSERT_TRUE(store.commit());
  };
  add(10);
  const int few = steps_of_last_lease(path, "python"), few_of_none = steps_of_last_lease(path, "other");
  EXPECT_EQ(store.last_lease_of("GPU-1", "python").value()->id, 9);
  add(5000);
  EXPECT_EQ(steps_of_last_lease(path, "python"), few);
  EXPECT_EQ(steps_of_last_lease(path, "other"), few_of_none);
  EXPECT_EQ(store.last_lease_of("GPU-1", "python").value()->id, 5010);
  EXPECT_FALSE(store.last_lease_of("GPU-1", "other").value());
}

TEST(Migration, LeasesForMachinesOfBeforeAreKnown) {
  Scratch scratch(memory_folder());
  const std::string path = scratch.file("pool.db");
  {
    Store store = Store::open(path).value();
    Lease lease{.id = 1, .user = "ann", .token_hash = "1", .state = LeaseState::kOpen, .gpus = {"GPU-1"}};
    lease.request.vm = "python";
    ASSERT_TRUE(store.save(lease));
  }
  {
    Database old = Database::open(path).value();
    ASSERT_TRUE(
        old.execute("DROP INDEX holding_for_vm; ALTER TABLE holding DROP COLUMN vm; CREATE INDEX holding_of_gpu ON "
                    "holding(gpu, lease); DROP TABLE clock; PRAGMA user_version = 3"));
  }
  Store store = Store::open(path).value();
  EXPECT_EQ(store.last_lease_of("GPU-1", "python").value()->id, 1);
}

TEST(Migration, ANewerDatabaseIsRefused) {
  Scratch scratch;
  const std::string path = scratch.file("pool.db");
  ASSERT_TRUE(Store::open(path));
  ASSERT_TRUE(Database::open(path).value().execute("PRAGMA user_version = 99"));
  EXPECT_THAT(Store::open(path).error().message(), ::testing::HasSubstr("use a newer Xoe"));
}

}  // namespace
}  // namespace xoe::pool::testing
