// The backend of groups over several hosts: shared memory within each host, a net between the hosts.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/hierarchical/context.h"
#include "core/backend/hierarchical/operation_queue.h"
#include "core/backend/hierarchical/rails.h"
#include "core/backend/hierarchical/watchdog.h"

namespace xoe::hierarchical {

class HierarchicalBackend final : public Backend, public HostGroup {
 public:
  // A group of all ranks of the job. Collective.
  static Result<std::unique_ptr<Backend>> make(std::shared_ptr<Context> context);
  ~HierarchicalBackend() override;

  std::string_view name() const noexcept override { return name_; }
  const Topology& topology() const noexcept override { return topology_; }
  Status supports(const Collective& collective) const override;
  Status run(const Collective& collective) override { return operations_.run(collective); }
  Result<std::shared_ptr<Handle::Work>> start(const Collective& collective) override {
    return operations_.start(collective);
  }
  Status progress() override;
  void abort(Error cause) override { end(cause); }
  Result<std::unique_ptr<Backend>> split(int color, int key) override;
  Result<SharedBuffer> shared_buffer(std::size_t bytes) override { return local_->shared_buffer(bytes); }
  Result<std::vector<std::byte*>> map_peers(const SharedBuffer& mine, const OpOptions& options) override;
  void all_met() noexcept override { all_met_.store(true, std::memory_order_relaxed); }
  HostGroup& host_group() noexcept override { return *this; }

  const std::vector<int>& hosts() const noexcept override { return placement_.hosts; }
  Result<std::byte*> host_memory(std::size_t bytes) override { return local_->host_memory(bytes); }
  Result<std::uint64_t> allocate_block(std::size_t bytes) override { return local_->allocate_block(bytes); }
  std::byte* block_address(std::uint64_t block) const noexcept override { return local_->block_address(block); }
  std::optional<std::uint64_t> block_of(const SharedBuffer& buffer) const noexcept override {
    return local_->block_of(buffer);
  }
  SharedBuffer view(std::uint64_t block, std::size_t bytes) const override { return local_->view(block, bytes); }
  Result<std::unique_ptr<LeaderChannel>> leader_channel() override;
  void wake() const noexcept override { local_->wake(); }
  void sleep(const std::function<bool()>& ready, std::chrono::steady_clock::time_point until) const override {
    local_->sleep(ready, until);
  }
  std::uint64_t steps() const noexcept override { return local_->steps(); }
  std::vector<int> departed() const override;
  std::optional<ProcessActivity> activity(int rank) const override;
  bool oversubscribed() const noexcept override { return local_->oversubscribed(); }

 private:
  // A rank that left, and how many collectives it had completed.
  struct Departure {
    int rank;
    std::uint64_t done;
  };
  // The ranks that have not begun a collective, or are stopped.
  struct Late {
    std::vector<int> ranks = {};
    bool others_unknown = false;  // ranks of other hosts
  };
  HierarchicalBackend(std::shared_ptr<Context> context, std::vector<int> ranks, std::uint64_t number,
                      std::unique_ptr<shm::ShmBackend> local);
  Status connect();

  Status execute(const Collective& collective);
  using Clock = std::chrono::steady_clock;
  Late look(std::uint64_t number) const;
  Late late_for(std::uint64_t number) const;
  CpuUse used_by_late(std::uint64_t number) const;
  bool reports(const Late& late) const;
  std::string describe_late(int rank) const;
  void on_stall(const Watchdog::Stall& stall);
  void on_failure(const FailureEvent& event);
  bool fail(const Error& cause);
  void end(const Error& cause);
  Error first_cause(const Error& seen);
  std::optional<Error> cause() const;
  std::optional<Error> left_before(std::uint64_t number) const;
  Error after_departures(const Error& loss) const;
  std::string key(std::string_view what);
  std::string who(int rank) const { return context_->who(ranks_[index(rank)]); }

  std::shared_ptr<Context> context_;
  std::vector<int> ranks_;  // of the job, by rank
  std::uint64_t number_;    // of this group, the same on all ranks
  Placement placement_;
  Topology topology_;
  std::string name_;
  std::unique_ptr<shm::ShmBackend> local_;
  std::unique_ptr<Rails> rails_;
  std::atomic<std::uint64_t> begun_ = 0;  // collectives
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<bool> all_met_ = false;
  int channels_ = 0;
  std::uint64_t splits_ = 0;

  mutable std::mutex cause_mutex_;
  std::optional<Error> cause_;
  std::vector<Departure> departed_;
  std::condition_variable cause_known_;
  int subscription_ = -1;
  std::unique_ptr<Watchdog> watchdog_;
  OperationQueue operations_;  // last: its thread uses the members above
};

}  // namespace xoe::hierarchical
