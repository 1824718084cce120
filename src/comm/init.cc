// The edge where a program's environment becomes a Communicator.
#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "backend/choose_backend.h"
#include "backend/shm/shm_backend.h"
#include "base/env.h"
#include "base/error.h"
#include "base/text.h"
#include "bootstrap/launch_env.h"
#include "bootstrap/store.h"
#include "comm/init.h"
#include "comm/many_hosts.h"
#include "xoe/communicator.h"

namespace xoe {
namespace {

std::chrono::nanoseconds to_duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

// A name for the group that all ranks form now. All ranks call init() equally often in one version of the world, so
// each can count its calls. Ranks may be threads of one process.
std::string next_group(const bootstrap::LaunchInfo& info, int world_version) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string, std::string, int, int>, int> formed;
  const std::lock_guard lock(mutex);
  const int number = formed[{info.store, info.job, info.topology.rank, world_version}]++;
  return world_version == 0 ? std::to_string(number) : fmt::format("{}.{}", world_version, number);
}

// The version of the world, which changes when the launcher restarts a failed rank; see bootstrap/store.h.
class WorldVersion {
 public:
  WorldVersion(const bootstrap::LaunchInfo& info, const Env& env)
      : info_(info), changes_(env.has("XOE_RESTARTS") && !info.store.empty() && info.topology.size > 1) {}

  Result<int> current(std::chrono::nanoseconds patience) {
    if (!changes_) return 0;
    if (!store_) {
      XOE_ASSIGN(store_, bootstrap::open_store(info_, patience));
    }
    XOE_ASSIGN(const std::string text, store_->get(bootstrap::kWorldVersionKey, patience));
    const auto number = parse_integer(text);
    if (!number) return failure(Code::kInternal, "store: '{}' is not a world version", text);
    known_ = static_cast<int>(*number);
    return known_;
  }

  // Whether joining failed because another version has begun. Peers notice the death of a rank a moment before the
  // launcher does, which then restarts it or ends the job.
  bool has_changed(const Error& cause) {
    if (!changes_ || !store_) return false;
    const bool lost = cause.code() == Code::kPeerLost;
    return store_
        ->get(fmt::format("{}/{}", bootstrap::kWorldVersionKey, known_ + 1), lost ? kLauncherPatience : kAnswerPatience)
        .has_value();
  }

 private:
  static constexpr std::chrono::nanoseconds kLauncherPatience = std::chrono::seconds(5);
  static constexpr std::chrono::nanoseconds kAnswerPatience = std::chrono::seconds(1);

  const bootstrap::LaunchInfo& info_;
  bool changes_;
  int known_ = 0;
  std::unique_ptr<bootstrap::Store> store_;
};

// How long ranks wait for a restarted one to load its program, and it for ranks that finish a long step.
constexpr std::chrono::nanoseconds kReturnPatience = std::chrono::minutes(10);

// The host of each rank when the ranks of this machine play `count` hosts, each with its share of neighbours.
std::vector<int> pretended_hosts(int size, int count) {
  std::vector<int> hosts;
  hosts.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) hosts.push_back(rank * count / size);
  return hosts;
}

Result<JoinSettings> read_settings(const Env& env, const InitOptions& options, int size) {
  XOE_ASSIGN(const auto timeout, env.seconds("XOE_TIMEOUT"));
  XOE_ASSIGN(const auto start_timeout, env.seconds("XOE_START_TIMEOUT"));
  XOE_ASSIGN(const auto arena, env.integer("XOE_ARENA_BYTES", 16 << 20, std::int64_t{1} << 45));
  XOE_ASSIGN(const auto hosts, env.integer("XOE_PRETEND_HOSTS", 1, size));
  return JoinSettings{.timeout = timeout ? to_duration(*timeout) : shm::kDefaultTimeout,
                      .patience = start_timeout ? to_duration(*start_timeout) : options.start_timeout,
                      .arena_bytes = arena ? static_cast<std::size_t>(*arena) : shm::Arena::default_bytes(),
                      .pretended_hosts = static_cast<int>(hosts.value_or(1))};
}

Result<std::unique_ptr<Backend>> join_one_host(const bootstrap::LaunchInfo& info, const JoinSettings& settings) {
  const Topology& topology = info.topology;
  if (topology.rank != topology.local_rank)
    return failure(Code::kInvalidArgument, "rank {} of {} has local rank {}, though all ranks are on this host",
                   topology.rank, topology.size, topology.local_rank);
  std::unique_ptr<bootstrap::Store> store;
  if (topology.size > 1) {
    XOE_ASSIGN(store, bootstrap::open_store(info, settings.patience));
  } else {
    store = bootstrap::make_memory_store();
  }
  XOE_ASSIGN(auto world, shm::World::join(topology, *store, fmt::format("shm/{}/", info.group), settings.patience,
                                          settings.arena_bytes));
  std::unique_ptr<Backend> backend = std::make_unique<shm::ShmBackend>(
      std::move(world), settings.timeout, pretended_hosts(topology.size, settings.pretended_hosts));
  // When all are here nobody needs the store any more, and each may leave without the others missing it.
  XOE_TRY(backend->run({.kind = CollectiveKind::kBarrier, .options = {.name = "init", .timeout = settings.patience}}));
  return backend;
}

}  // namespace

Result<Communicator> init_from(const Env& env, const InitOptions& options) {
  XOE_ASSIGN(bootstrap::LaunchInfo info, bootstrap::read_launch_info(env));
  const Topology& topology = info.topology;
  XOE_ASSIGN(const JoinSettings settings, read_settings(env, options, topology.size));
  const BackendWish wish{.backend = env.text("XOE_BACKEND").value_or("auto"),
                         .net = env.text("XOE_NET").value_or("auto")};
  const bool by_mpi = info.launcher == "openmpi" || info.launcher == "mpich";
  XOE_ASSIGN(const BackendChoice choice, choose_backend(wish, topology.local_size != topology.size, by_mpi));
  WorldVersion world_version(info, env);
  while (true) {
    XOE_ASSIGN(const int number, world_version.current(settings.patience));
    info.group = next_group(info, number);
    JoinSettings patient = settings;
    if (number > 0 && !env.has("XOE_START_TIMEOUT")) patient.patience = std::max(patient.patience, kReturnPatience);
    auto backend =
        choice.shm || topology.size == 1 ? join_one_host(info, patient) : join_many_hosts(info, env, patient, choice);
    if (backend) return Communicator(std::move(*backend));
    if (!world_version.has_changed(backend.error())) return failure(backend.error());
  }
}

Result<Communicator> init(InitOptions options) { return init_from(Env::process(), options); }

}  // namespace xoe
