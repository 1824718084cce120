// The backend of groups over several hosts: shared memory within each host, another engine between them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "backend/hierarchical/host_world.h"
#include "backend/hierarchical/lanes.h"

namespace xoe::hierarchical {

// Collectives run one after the other: in the caller's thread while nothing is pending, else in the group's own. A
// started one thus goes on by itself.
class HierarchicalBackend final : public Backend {
 public:
  // A group of all ranks of the job. Collective.
  static Result<std::unique_ptr<Backend>> make(std::shared_ptr<HostWorld> world);
  ~HierarchicalBackend() override;

  std::string_view name() const noexcept override { return name_; }
  const Topology& topology() const noexcept override { return topology_; }
  Status supports(const Collective& collective) const override;
  Status run(const Collective& collective) override;
  Result<std::shared_ptr<Handle::Work>> start(const Collective& collective) override;
  Status progress() override;
  Result<std::unique_ptr<Backend>> split(int color, int key) override;
  Result<SharedBuffer> shared_buffer(std::size_t bytes) override { return local_->shared_buffer(bytes); }
  Result<std::vector<std::byte*>> map_peers(const SharedBuffer& mine, const OpOptions& options) override;
  const std::vector<int>& hosts() const noexcept override { return placement_.hosts; }
  Result<std::byte*> host_memory(std::size_t bytes) override;
  Result<std::unique_ptr<HostLink>> host_link() override;
  void wake() const noexcept override { local_->wake(); }
  void sleep(const std::function<bool()>& ready, std::chrono::steady_clock::time_point until) const override {
    local_->sleep(ready, until);
  }
  void abort(Error cause) override;
  std::vector<int> departed() const override;
  bool oversubscribed() const noexcept override { return local_->oversubscribed(); }

 private:
  class Task;
  // A rank that left, and how many collectives it had done.
  struct Departure {
    int rank;
    std::uint64_t done;
  };
  HierarchicalBackend(std::shared_ptr<HostWorld> world, std::vector<int> ranks, std::uint64_t number,
                      std::unique_ptr<shm::ShmBackend> local);
  Status connect();

  Status execute(const Collective& collective);
  void work();
  void hear(const AlarmEvent& event);
  bool fail(const Error& cause);
  Error first_cause(const Error& seen);
  std::optional<Error> cause() const;
  std::optional<Error> left_before(std::uint64_t number) const;
  std::string key(std::string_view what);

  std::shared_ptr<HostWorld> world_;
  std::vector<int> ranks_;  // of the job, by rank
  std::uint64_t number_;    // of this group, the same on all ranks
  Placement placement_;
  Topology topology_;
  std::string name_;
  std::unique_ptr<shm::ShmBackend> local_;
  std::unique_ptr<Lanes> lanes_;
  std::atomic<std::uint64_t> begun_ = 0;  // collectives
  std::atomic<std::uint64_t> done_ = 0;
  int exchanges_ = 0;
  std::uint64_t splits_ = 0;

  mutable std::mutex cause_mutex_;
  std::optional<Error> cause_;
  std::vector<Departure> departed_;
  std::condition_variable heard_;
  int listener_ = -1;

  std::mutex queue_mutex_;
  std::condition_variable queued_;
  std::deque<std::shared_ptr<Task>> queue_;  // the first is being executed
  bool stopping_ = false;
  std::jthread worker_;
};

}  // namespace xoe::hierarchical
