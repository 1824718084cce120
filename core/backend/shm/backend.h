// The backend for the ranks of one host: shared memory, without system calls while all ranks are awake.
#pragma once

#include <chrono>
#include <memory>

#include "core/backend/backend.h"
#include "core/backend/placement.h"
#include "core/backend/shm/operation_queue.h"

namespace xoe::shm {

class ShmBackend final : public Backend, public HostGroup {
 public:
  // A group of all ranks of `context`. hosts: by rank, where the ranks simulate several hosts; empty: one host.
  explicit ShmBackend(std::shared_ptr<Context> context, WaitPolicy policy = {}, const std::vector<int>& hosts = {});
  ~ShmBackend() override;

  std::string_view name() const noexcept override { return "shm"; }
  const Topology& topology() const noexcept override { return topology_; }
  Status supports(const Collective& collective) const override { return check_host_memory(collective, "shm"); }
  Status run(const Collective& collective) override { return operations_->run(collective); }
  bool run_small(const ReduceCall& call, Status& status) override { return operations_->run_small(call, status); }
  Result<std::shared_ptr<Handle::Work>> start(const Collective& collective) override;
  Status progress() override {
    operations_->check_time();
    return operations_->progress();
  }
  void abort(Error cause) override { operations_->abort(cause); }
  Result<std::unique_ptr<Backend>> split(int color, int key) override;
  Result<SharedBuffer> shared_buffer(std::size_t bytes) override;
  Result<std::vector<std::byte*>> map_peers(const SharedBuffer& mine, const OpOptions& options) override;
  HostGroup& host_group() noexcept override { return *this; }

  const std::vector<int>& hosts() const noexcept override { return placement_.hosts; }
  Result<std::byte*> host_memory(std::size_t bytes) override;
  Result<std::uint64_t> allocate_block(std::size_t bytes) override;
  std::byte* block_address(std::uint64_t block) const noexcept override;
  std::optional<std::uint64_t> block_of(const SharedBuffer& buffer) const noexcept override;
  SharedBuffer view(std::uint64_t block, std::size_t bytes) const override;
  Result<std::unique_ptr<LeaderChannel>> leader_channel() override;
  void wake() const noexcept override { operations_->group().wakeups().publish(); }
  void sleep(const std::function<bool()>& ready, std::chrono::steady_clock::time_point until) const override {
    operations_->group().wakeups().sleep(ready, until);
  }
  std::uint64_t steps() const noexcept override { return operations_->steps(); }
  std::vector<int> departed() const override { return operations_->departed(); }
  std::optional<ProcessActivity> activity(int rank) const override { return operations_->group().activity(rank); }
  bool oversubscribed() const noexcept override { return operations_->group().context().oversubscribed(); }

 private:
  ShmBackend(std::shared_ptr<OperationQueue> operations, const std::vector<int>& hosts);

  std::shared_ptr<OperationQueue> operations_;  // shared with the handles of started operations
  Placement placement_;
  Topology topology_;
  std::vector<SharedBuffer> channel_memory_;  // of this rank's leader channels
};

}  // namespace xoe::shm
