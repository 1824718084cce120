// The engine for the ranks of one host: shared memory, no kernel calls while all are awake.
#pragma once

#include <chrono>
#include <memory>

#include "backend/backend.h"
#include "backend/shm/core.h"

namespace xoe::shm {

inline constexpr std::chrono::nanoseconds kDefaultTimeout = std::chrono::minutes(30);

class ShmBackend final : public Backend {
 public:
  // A group of all ranks of `world`. hosts: by rank, where ranks of one machine play several hosts; empty: one host.
  explicit ShmBackend(std::shared_ptr<World> world, std::chrono::nanoseconds default_timeout = kDefaultTimeout,
                      std::vector<int> hosts = {});
  ~ShmBackend() override;

  std::string_view name() const noexcept override { return "shm"; }
  const Topology& topology() const noexcept override { return topology_; }
  Status supports(const Collective& collective) const override;
  Status run(const Collective& collective) override { return core_->run(collective); }
  Result<std::shared_ptr<Handle::Work>> start(const Collective& collective) override;
  Status progress() override { return core_->progress(); }
  Result<std::unique_ptr<Backend>> split(int color, int key) override;
  Result<SharedBuffer> shared_buffer(std::size_t bytes) override;
  Result<std::vector<std::byte*>> map_peers(const SharedBuffer& mine, const OpOptions& options) override;
  const std::vector<int>& hosts() const noexcept override { return hosts_; }
  Result<std::byte*> host_memory(std::size_t bytes) override;
  Result<std::unique_ptr<HostLink>> host_link() override;
  void wake() const noexcept override { core_->group().bells().publish(); }
  void sleep(const std::function<bool()>& ready, std::chrono::steady_clock::time_point until) const override {
    core_->group().bells().sleep(ready, until);
  }
  void abort(Error cause) override { core_->abort(cause); }
  std::vector<int> departed() const override { return core_->departed(); }
  bool oversubscribed() const noexcept override { return core_->group().world().oversubscribed(); }

 private:
  ShmBackend(std::shared_ptr<Core> core, std::vector<int> hosts);

  std::shared_ptr<Core> core_;           // also held by the handles of started operations
  std::vector<int> hosts_;               // by rank
  std::vector<SharedBuffer> mailboxes_;  // of links
  Topology topology_;
};

}  // namespace xoe::shm
