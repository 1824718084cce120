// The edge where a program's environment becomes a Communicator.
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "backend/shm/shm_backend.h"
#include "base/env.h"
#include "base/error.h"
#include "bootstrap/launch_env.h"
#include "bootstrap/store.h"
#include "backend/choose_backend.h"
#include "comm/init.h"
#include "comm/many_hosts.h"
#include "xoe/communicator.h"

namespace xoe {
namespace {

std::chrono::nanoseconds to_duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

// All ranks call init() equally often, so each may count for itself. Ranks can be threads of one process.
int count_group(const bootstrap::LaunchInfo& info) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string, std::string, int>, int> formed;
  const std::lock_guard lock(mutex);
  return formed[{info.store, info.job, info.topology.rank}]++;
}

// The host of each rank when the ranks of this machine play `count` hosts, each with its share of neighbours.
std::vector<int> pretended_hosts(int size, int count) {
  std::vector<int> hosts;
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
  info.group = count_group(info);
  if (choice.shm || topology.size == 1) {
    XOE_ASSIGN(auto backend, join_one_host(info, settings));
    return Communicator(std::move(backend));
  }
  XOE_ASSIGN(auto backend, join_many_hosts(std::move(info), env, settings, choice));
  return Communicator(std::move(backend));
}

Result<Communicator> init(InitOptions options) { return init_from(Env::process(), options); }

}  // namespace xoe
