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
#include "comm/init.h"
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
std::vector<int> pretended_hosts(int size, std::int64_t count) {
  std::vector<int> hosts;
  for (int rank = 0; rank < size; ++rank) hosts.push_back(static_cast<int>(rank * count / size));
  return hosts;
}

}  // namespace

Result<Communicator> init_from(const Env& env, const InitOptions& options) {
  XOE_ASSIGN(bootstrap::LaunchInfo info, bootstrap::read_launch_info(env));
  const Topology& topology = info.topology;
  if (topology.local_size != topology.size)
    return failure(Code::kUnsupported,
                   "{} ranks of which {} on this host: this version of Xoe joins the ranks of one host only",
                   topology.size, topology.local_size);
  if (topology.rank != topology.local_rank)
    return failure(Code::kInvalidArgument, "rank {} of {} has local rank {}, though all ranks are on this host",
                   topology.rank, topology.size, topology.local_rank);
  XOE_ASSIGN(const auto timeout, env.seconds("XOE_TIMEOUT"));
  XOE_ASSIGN(const auto start_timeout, env.seconds("XOE_START_TIMEOUT"));
  XOE_ASSIGN(const auto arena, env.integer("XOE_ARENA_BYTES", 16 << 20, std::int64_t{1} << 45));
  XOE_ASSIGN(const auto hosts, env.integer("XOE_PRETEND_HOSTS", 1, topology.size));
  const auto patience = start_timeout ? to_duration(*start_timeout) : options.start_timeout;

  info.group = count_group(info);
  std::unique_ptr<bootstrap::Store> store;
  if (topology.size > 1) {
    XOE_ASSIGN(store, bootstrap::open_store(info, patience));
  } else {
    store = bootstrap::make_memory_store();
  }
  XOE_ASSIGN(auto world, shm::World::join(topology, *store, info.group, patience,
                                          arena ? static_cast<std::size_t>(*arena) : shm::Arena::default_bytes()));
  Communicator communicator(std::make_unique<shm::ShmBackend>(
      std::move(world), timeout ? to_duration(*timeout) : std::chrono::nanoseconds(shm::kDefaultTimeout),
      pretended_hosts(topology.size, hosts.value_or(1))));
  // When all are here nobody needs the store any more, and each may leave without the others missing it.
  XOE_TRY(communicator.barrier({.name = "init", .timeout = patience}));
  return communicator;
}

Result<Communicator> init(InitOptions options) { return init_from(Env::process(), options); }

}  // namespace xoe
