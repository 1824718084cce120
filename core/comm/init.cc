// Makes a Communicator from the environment of a program.
#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/backend/choose_backend.h"
#include "core/backend/shm/backend.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/world_changes.h"
#include "core/bootstrap/failing_rank.h"
#include "core/bootstrap/launch_env.h"
#include "core/bootstrap/own_keys.h"
#include "core/bootstrap/store.h"
#include "core/bootstrap/user_key.h"
#include "core/bootstrap/world_members.h"
#include "core/comm/init.h"
#include "core/comm/join_hosts.h"
#include "core/comm/world_history.h"
#include "xoe/communicator.h"

namespace xoe {
namespace {

std::chrono::nanoseconds to_duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

// A restarted rank loads its program, and the others may have a long step to finish first.
constexpr std::chrono::nanoseconds kRestartTimeout = std::chrono::minutes(10);
// Hosts that have told their addresses are there: one that cannot be reached would hold up all others for so long.
constexpr std::chrono::nanoseconds kConnectLimit = std::chrono::seconds(30);
// A newcomer waits until the others let it in, which they do at a step of theirs; the launcher ends it with the job.
constexpr std::chrono::nanoseconds kNewcomerTimeout = std::chrono::hours(24 * 20);

// A name for the group that all ranks form now; its keys in the store begin with it. All ranks call init() equally
// often in a world version, so each counts for itself. Ranks can be threads of one process.
std::string next_group(const bootstrap::LaunchInfo& info, const std::optional<bootstrap::World>& world) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string, std::string, int, int>, int> formed;
  const std::lock_guard lock(mutex);
  const int number = formed[{info.store, info.job, info.topology.rank, world ? world->version : 0}]++;
  return (world ? bootstrap::world_keys(world->version) : std::string()) + std::to_string(number);
}

// The versions of the world of ranks: each restart of failed ranks, and each change of their number, makes another one.
// It is in the launcher's store; see bootstrap/store.h.
class WorldVersion {
 public:
  WorldVersion(const bootstrap::LaunchInfo& info, const Env& env)
      : info_(info),
        changes_(!info.store.empty() &&
                 (env.has(bootstrap::kWorldVariable) || (env.has("XOE_RESTARTS") && info.topology.size > 1))) {}

  // Without a value there is one world, which all ranks are in.
  Result<std::optional<bootstrap::World>> current(std::chrono::nanoseconds timeout) {
    if (!changes_) return std::nullopt;
    if (!store_) {
      XOE_ASSIGN(store_, bootstrap::open_store(info_, timeout));
    }
    XOE_ASSIGN(const std::string text, store_->get(bootstrap::kWorldVersionKey, timeout));
    XOE_ASSIGN(bootstrap::World world, bootstrap::parse_world(text));
    known_ = world.version;
    return world;
  }

  // Says that this process is ready to become a member, and waits for a version in which it may be one.
  Status await_membership() {
    // Another version may begin meanwhile and remove the key; then the next one is there already, too.
    const std::string slot = fmt::format("{}/{}", bootstrap::kWorldCandidateKey, info_.topology.rank);
    if (const Status set = store_->set(slot, ""); !set && set.error().code() == Code::kPeerLost) return set;
    const auto next = store_->get(fmt::format("{}/{}", bootstrap::kWorldVersionKey, known_ + 1), kNewcomerTimeout);
    if (next || next.error().code() == Code::kUnavailable) return {};
    return failure(next.error());
  }

  // Tells the launcher that all members have joined, if it wants to know.
  void formed() {
    if (store_) static_cast<void>(store_->set(fmt::format("{}/{}", bootstrap::kWorldFormedKey, known_), ""));
  }

  // Whether joining failed because another version has begun. The peers of a rank that died know it a moment earlier
  // than the launcher, which restarts the rank or ends the job. told: it was told which ranks cannot be reached.
  bool superseded(const Error& cause, bool told) {
    if (!changes_ || !store_) return false;
    const bool lost = cause.code() == Code::kPeerLost || (told && cause.code() == Code::kTimeout);
    return store_
        ->get(fmt::format("{}/{}", bootstrap::kWorldVersionKey, known_ + 1), lost ? kLauncherTimeout : kAnswerTimeout)
        .has_value();
  }

 private:
  // A process that dies may take seconds to end, more on a loaded host.
  static constexpr std::chrono::nanoseconds kLauncherTimeout = std::chrono::seconds(15);
  static constexpr std::chrono::nanoseconds kAnswerTimeout = std::chrono::seconds(1);

  const bootstrap::LaunchInfo info_;
  bool changes_;
  int known_ = 0;
  std::unique_ptr<bootstrap::Store> store_;
};

// The host of each rank when the ranks of this machine simulate `count` hosts, each with an equal share of them.
std::vector<int> simulated_hosts(int size, int count) {
  std::vector<int> hosts;
  hosts.reserve(index(size));
  for (int rank = 0; rank < size; ++rank) hosts.push_back(rank * count / size);
  return hosts;
}

Result<WaitPolicy> read_waits(const Env& env, const InitOptions& options) {
  WaitPolicy waits{.warn = options.warn};
  if (!waits.warn)
    waits.warn = [](std::string_view line) {
      std::fprintf(stderr, "xoe: %.*s\n", static_cast<int>(line.size()), line.data());
    };
  XOE_ASSIGN(const auto timeout, env.seconds("XOE_TIMEOUT"));
  if (timeout) {
    waits.limits.limit = to_duration(*timeout);
    waits.limits.spares_computing = false;
  }
  if (parse_number(env.text("XOE_STALL_WARNING").value_or("")) == 0.0) {
    waits.limits.warning = {};
    return waits;
  }
  XOE_ASSIGN(const auto warning, env.seconds("XOE_STALL_WARNING"));
  if (warning) waits.limits.warning = to_duration(*warning);
  return waits;
}

Result<JoinSettings> read_settings(const Env& env, const InitOptions& options, int size) {
  XOE_ASSIGN(WaitPolicy waits, read_waits(env, options));
  XOE_ASSIGN(const auto start_timeout, env.seconds("XOE_START_TIMEOUT"));
  XOE_ASSIGN(const auto arena, env.integer("XOE_ARENA_BYTES", 16 << 20, std::int64_t{1} << 45));
  XOE_ASSIGN(const auto hosts, env.integer("XOE_PRETEND_HOSTS", 1, size));
  return JoinSettings{.waits = std::move(waits),
                      .start_timeout = start_timeout ? to_duration(*start_timeout) : options.start_timeout,
                      .arena_bytes = arena ? static_cast<std::size_t>(*arena) : shm::Arena::default_bytes(),
                      .simulated_hosts = static_cast<int>(hosts.value_or(1))};
}

Result<Joined> join_one_host(bootstrap::LaunchInfo info, const Env& env, const JoinSettings& settings) {
  const Topology& topology = info.topology;
  if (topology.rank != topology.local_rank)
    return failure(Code::kInvalidArgument, "rank {} of {} has local rank {}, though all ranks are on this host",
                   topology.rank, topology.size, topology.local_rank);
  // Without a home directory for the key, the ranks meet at a name that other users can guess, and occupy.
  if (topology.size > 1 && info.store.empty() && info.secret.empty())
    info.secret = bootstrap::job_secret(env, info.job).value_or("");
  std::unique_ptr<bootstrap::Store> met;
  if (topology.size > 1) {
    XOE_ASSIGN(met, bootstrap::open_store(info, settings.start_timeout));
  } else {
    met = bootstrap::make_memory_store();
  }
  bootstrap::OwnKeys store(std::move(met));
  XOE_ASSIGN(auto context, shm::Context::join(topology, store, fmt::format("{}/shm/", info.group),
                                              settings.start_timeout, settings.arena_bytes));
  std::unique_ptr<Backend> backend = std::make_unique<shm::ShmBackend>(
      std::move(context), settings.waits, simulated_hosts(topology.size, settings.simulated_hosts));
  // Once all ranks have joined, no rank needs the store, and each may leave without being missed.
  XOE_TRY(
      backend->run({.kind = CollectiveKind::kBarrier, .options = {.name = "init", .timeout = settings.start_timeout}}));
  store.remove_all();
  return Joined{.world = Communicator(std::move(backend)), .key = key_of(info.secret, info.group)};
}

void note_world(const bootstrap::World& world, const Topology& topology, WorldHistory::Clock::time_point began) {
  WorldRanks ranks{.version = world.version, .rank = topology.rank, .size = topology.size};
  for (const bootstrap::WorldMember& member : world.members) ranks.slots.push_back(member.slot);
  WorldHistory::of_process().joined(ranks, began);
}

}  // namespace

Result<Joined> join(const Env& env, const InitOptions& options, Warn warn, const OnJoined& on_joined,
                    TellsFormed tells) {
  XOE_ASSIGN(bootstrap::LaunchInfo info, bootstrap::read_launch_info(env));
  const Topology& topology = info.topology;
  XOE_ASSIGN(JoinSettings settings, read_settings(env, options, topology.size));
  settings.warn =
      warn ? std::move(warn) : [](const std::string& line) { std::fprintf(stderr, "xoe: %s\n", line.c_str()); };
  XOE_ASSIGN(const auto encrypt, env.integer(kEncryptVariable, 0, 1));
  const BackendRequest request{.backend = env.text("XOE_BACKEND").value_or("auto"),
                               .net = env.text("XOE_NET").value_or("auto"),
                               .deterministic = env.text("XOE_DETERMINISTIC").value_or("placement"),
                               .encrypt = encrypt == 1};
  const bool by_mpi = info.launcher == "openmpi" || info.launcher == "mpich";
  const auto version = std::make_shared<WorldVersion>(info, env);
  // A program that cannot see changes would take part in none.
  XOE_ASSIGN(const bootstrap::WorldView view, bootstrap::WorldView::of_process(env));
  bool newcomer = false;
  const auto began = std::chrono::steady_clock::now();
  while (true) {
    XOE_ASSIGN(const auto world, version->current(settings.start_timeout));
    bootstrap::LaunchInfo mine = info;
    if (world && !world->members.empty()) {
      const auto member = std::ranges::find(world->members, topology.rank, &bootstrap::WorldMember::slot);
      if (member == world->members.end()) {
        newcomer = true;
        XOE_TRY(version->await_membership());
        continue;
      }
      mine.topology = topology_of(world->members, static_cast<std::size_t>(member - world->members.begin()));
    }
    const int number = world ? world->version : 0;
    // Ranks of several hosts may be left on one, or the other way round.
    XOE_ASSIGN(const BackendChoice choice,
               choose_backend(request, mine.topology.local_size != mine.topology.size, by_mpi));
    mine.group = next_group(info, world);
    JoinSettings now = settings;
    if (number > 0) now.connect_limit = kConnectLimit;
    if (number > 0 && !env.has("XOE_START_TIMEOUT"))
      now.start_timeout = std::max(now.start_timeout, newcomer ? kNewcomerTimeout : kRestartTimeout);
    auto joined =
        choice.shm || mine.topology.size == 1 ? join_one_host(mine, env, now) : join_many_hosts(mine, env, now, choice);
    if (joined) {
      joined->version = number;
      joined->view = view;
      if (world) note_world(*world, mine.topology, began);
      const Status ready = on_joined ? on_joined(*joined) : Status();
      if (ready && view.may_change() && mine.topology.rank == 0) {
        joined->tell_formed = [version] { version->formed(); };
        if (tells == TellsFormed::kAtOnce) std::exchange(joined->tell_formed, {})();
      }
      if (ready && number > 0 && !newcomer) world_changes().add(std::chrono::steady_clock::now() - began);
      if (ready) return joined;
      joined = failure(ready.error());  // leaves the world
    }
    if (number > 0 && joined.error().code() == Code::kTimeout)
      bootstrap::announce_unreachable_peers(env, joined.error().message(), number);
    if (!version->superseded(joined.error(), number > 0)) return failure(joined.error());
  }
}

Result<Communicator> init_from(const Env& env, const InitOptions& options) {
  XOE_ASSIGN(Joined joined, join(env, options));
  return std::move(joined.world);
}

Result<Communicator> init(const InitOptions& options) { return init_from(Env::process(), options); }

}  // namespace xoe
