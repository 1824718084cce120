// What a rank has of its job over several hosts: its host's shared memory, the engine between hosts, and the news of
// who is gone. All groups of the rank share it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/hierarchical/alarm.h"
#include "backend/hierarchical/plan.h"
#include "backend/net/net.h"
#include "backend/shm/shm_backend.h"
#include "bootstrap/host_mesh.h"
#include "bootstrap/store.h"

namespace xoe::hierarchical {

// A rank as its peers know it.
struct RankFacts {
  std::string host;     // the same for the ranks of a host, and no others
  std::string address;  // of the host, as a number
  int pid = 0;
};

struct WorldOptions {
  std::string keys;  // begins the names of all keys in the store
  std::string secret;
  std::string address;  // of this host, as a number
  std::chrono::nanoseconds start_timeout = std::chrono::seconds(60);
  std::chrono::nanoseconds timeout = shm::kDefaultTimeout;
  std::chrono::nanoseconds silence = std::chrono::seconds(10);
  std::size_t arena_bytes = 0;
  bool flat = false;  // all between all ranks, also of one host: no shared memory for collectives
};

class HostWorld {
 public:
  // Collective over all ranks. The store is kept: groups that are made later meet there.
  static Result<std::shared_ptr<HostWorld>> join(const std::vector<RankFacts>& ranks, int rank,
                                                 std::shared_ptr<bootstrap::Store> store,
                                                 std::unique_ptr<net::Provider> provider, WorldOptions options);
  ~HostWorld();

  int rank() const noexcept { return placement_.rank; }
  const Placement& placement() const noexcept { return placement_; }
  const WorldOptions& options() const noexcept { return options_; }
  const std::shared_ptr<shm::World>& memory() const noexcept { return memory_; }
  net::Provider& provider() noexcept { return *provider_; }
  Alarm& alarm() noexcept { return *alarm_; }
  // False in a forked child, which is no rank.
  bool in_its_process() const noexcept;
  // Another group of this host's ranks; once.
  std::unique_ptr<shm::ShmBackend> group_of_host() { return std::move(control_); }
  // Wakes this rank where it sleeps.
  void wake() const noexcept;
  // "rank 3 (nodeB, pid 4410)"
  std::string who(int rank) const;
  std::string host_name(int host) const;

  // What the members, ranks of the job, exchange under a key that no other exchange has.
  Result<std::vector<std::string>> exchange(const std::string& key, const std::vector<int>& members, std::string mine);

 private:
  HostWorld() = default;
  Status connect();
  Status connect_hosts();
  void on_local_end(int local_rank);
  void on_host_lost(int host, bool silent, const std::string& why);
  void tell_hosts(const AlarmEvent& event);

  pid_t owner_ = 0;
  WorldOptions options_;
  Placement placement_;
  std::vector<RankFacts> facts_;
  std::shared_ptr<bootstrap::Store> store_;
  std::unique_ptr<net::Provider> provider_;
  std::shared_ptr<shm::World> memory_;
  std::unique_ptr<shm::ShmBackend> control_;  // gives the alarm its memory, then becomes the first group's
  std::optional<AlarmLog> log_;
  std::atomic<std::uint64_t>* goodbyes_ = nullptr;  // of this host's ranks, a bit each
  std::unique_ptr<bootstrap::HostMesh> mesh_;       // on the host's leader
  std::unique_ptr<Alarm> alarm_;
};

}  // namespace xoe::hierarchical
