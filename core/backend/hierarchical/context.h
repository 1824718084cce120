// The context of a rank in a job over several hosts: its host's shared memory, the provider of nets between hosts, and
// the failures that it has learned of. All groups of the rank share one.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/hierarchical/failure_log.h"
#include "core/backend/hierarchical/rails.h"
#include "core/backend/net/net.h"
#include "core/backend/placement.h"
#include "core/backend/shm/backend.h"
#include "core/bootstrap/host_mesh.h"
#include "core/bootstrap/own_keys.h"

namespace xoe::hierarchical {

// What a rank is doing.
struct RankState {
  ProcessActivity activity = {};
  std::uint64_t group = 0;  // of the collective that it began last
  std::uint64_t begun = 0;  // its number in that group
};

// A rank as its peers know it.
struct RankInfo {
  std::string host;     // a name that the ranks of one host share, and only they
  std::string address;  // of the host, numeric
  int pid = 0;
  bool in_rank_order = false;  // its user wants Routing::in_rank_order
  bool encrypts = false;       // its user wants what leaves the host to be encrypted
};

struct ContextOptions {
  std::string keys;  // the prefix of all keys in the store
  std::string secret;
  std::string address;  // of this host, numeric
  std::chrono::nanoseconds start_timeout = std::chrono::seconds(60);
  std::chrono::nanoseconds connect_limit = {};  // to connect those that are there; zero: start_timeout
  WaitPolicy waits = {};
  std::chrono::nanoseconds silence = std::chrono::seconds(10);  // after which a host counts as lost
  std::size_t arena_bytes = 0;
  Routing routing = {};
  std::function<void(const std::string&)> warn = {};  // receives warnings, one line each
};

class Context {
 public:
  // Collective over all ranks. Keeps the store, at which groups that are made later exchange addresses.
  static Result<std::shared_ptr<Context>> join(std::vector<RankInfo> ranks, int rank,
                                               std::shared_ptr<bootstrap::OwnKeys> store,
                                               std::unique_ptr<net::Provider> provider, ContextOptions options);
  ~Context();

  int rank() const noexcept { return placement_.rank; }
  const Placement& placement() const noexcept { return placement_; }
  const ContextOptions& options() const noexcept { return options_; }
  // Of the nets, for an operation without one of its own. Where the limit spares ranks that compute, the watchdog keeps
  // it, and this is the last resort.
  std::chrono::nanoseconds timeout() const noexcept {
    return options_.waits.limits.spares_computing ? kDefaultTimeout : options_.waits.limits.limit;
  }
  net::Provider& provider() noexcept { return *provider_; }
  FailureListener& failures() noexcept { return *listener_; }
  // False in a forked child, which is not a rank.
  bool in_its_process() const noexcept;
  // The group of this host's ranks. Call it once.
  std::unique_ptr<shm::ShmBackend> take_host_backend() { return std::move(host_backend_); }
  // nullopt: not known, or not yet: for a rank of another host this asks that host, as HostGroup::activity() does.
  std::optional<RankState> state(int rank);
  // True if the rank's host has told its state since `time`, or up to 100 ms before, and for ranks of this host.
  bool has_answered(int rank, std::chrono::steady_clock::time_point time);
  // Whether state() asks another host.
  bool asks_about(int rank) const noexcept {
    return mesh_ != nullptr && placement_.hosts[index(rank)] != placement_.host();
  }
  // This rank begins a collective.
  void note_begun(std::uint64_t group, std::uint64_t number) noexcept;
  // Wakes this rank if it sleeps.
  void wake() const noexcept;
  // "rank 3 (host nodeB, pid 4410)"
  std::string who(int rank) const;

  // Exchanges text among `members`, ranks of the job, under a key that no other exchange has.
  Result<std::vector<std::string>> exchange(const std::string& key, const std::vector<int>& members,
                                            const std::string& mine);
  // All members of a group have met, so each has read what this rank told them under the keys that begin so.
  void forget(std::string_view keys) { store_->forget(keys); }
  // `unavailable` when another version of the world has begun: the ranks that have not joined this one will not. Any
  // thread.
  Status check_version();
  // Explains why a group cannot form: if another version has begun, a rank was lost, or their number changes.
  Error cause_of(const Error& seen);
  // Connects the leaders of hosts, ranks of the job. host: this one's index among them. neighbours: those to connect
  // this one to. silence: after which one counts as lost; zero: the mesh does not judge.
  Result<std::unique_ptr<bootstrap::HostMesh>> connect_mesh(const std::string& key, const std::vector<int>& leaders,
                                                            int host, const std::vector<int>& neighbours,
                                                            std::chrono::nanoseconds silence,
                                                            bootstrap::MeshEvents events);
  // The connection to a leader, a rank of the job, has broken; `silent` as in MeshEvents. Threads of meshes call it.
  void on_leader_lost(int leader, bool silent, const std::string& why);

 private:
  struct Progress;
  Context() = default;
  RankState local_state(int rank) const;
  Status connect();
  Status connect_hosts();
  void on_rank_ended(int local_rank);
  void learn(FailureEvent event);
  void on_message(bootstrap::HostMesh& mesh, int host, std::string_view message);
  void forward(const FailureEvent& event);

  pid_t owner_ = 0;
  ContextOptions options_;
  Placement placement_;
  std::vector<RankInfo> ranks_;
  std::shared_ptr<bootstrap::OwnKeys> store_;
  std::unique_ptr<net::Provider> provider_;
  std::shared_ptr<shm::Context> memory_;
  std::unique_ptr<shm::ShmBackend> host_backend_;  // allocates the log, then becomes the first group's
  std::optional<FailureLog> log_;
  shm::RankBits* left_ = nullptr;  // this host's ranks that have left the job
  Progress* progress_ = nullptr;   // of each of this host's ranks
  std::mutex reported_mutex_;
  std::map<int, RankState> reported_;                           // by ranks of other hosts
  std::map<int, std::chrono::steady_clock::time_point> asked_;  // by host
  std::mutex learned_mutex_;
  std::set<FailureKey> learned_;               // from other hosts
  std::set<FailureKey> forwarded_;             // to them, by the listener's thread
  std::unique_ptr<bootstrap::HostMesh> mesh_;  // on the host's leader
  std::unique_ptr<FailureListener> listener_;
};

}  // namespace xoe::hierarchical
