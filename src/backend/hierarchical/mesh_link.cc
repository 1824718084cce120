#include "backend/hierarchical/mesh_link.h"

#include <deque>
#include <mutex>

#include "base/error.h"

namespace xoe::hierarchical {
namespace {

class MeshLink final : public HostLink {
 public:
  explicit MeshLink(std::shared_ptr<HostWorld> world) : world_(std::move(world)) {}

  Status connect(const std::vector<int>& leaders, int host, const std::string& key) {
    const auto exchanged = [&](std::string mine) { return world_->exchange(key, leaders, std::move(mine)); };
    bootstrap::MeshEvents events;
    events.message = [this](int from, const std::string& message) {
      const auto* bytes = reinterpret_cast<const std::byte*>(message.data());
      {
        const std::lock_guard lock(mutex_);
        arrived_.push_back({from, {bytes, bytes + message.size()}});
      }
      world_->wake();
    };
    events.lost = [](int, bool, const std::string&) {};  // the alarm tells the group
    const WorldOptions& options = world_->options();
    XOE_ASSIGN(mesh_, bootstrap::HostMesh::connect(
                          host, static_cast<int>(leaders.size()), exchanged,
                          {.address = options.address, .secret = options.secret, .silence = options.silence},
                          std::chrono::steady_clock::now() + options.start_timeout, std::move(events)));
    return {};
  }

  void send(int to_host, std::vector<std::byte> message) override {
    mesh_->send(to_host, {reinterpret_cast<const char*>(message.data()), message.size()});
    sent_ = true;
  }
  bool pump() override { return std::exchange(sent_, false); }

  std::optional<Incoming> receive() override {
    const std::lock_guard lock(mutex_);
    if (arrived_.empty()) return std::nullopt;
    Incoming incoming = std::move(arrived_.front());
    arrived_.pop_front();
    return incoming;
  }

 private:
  std::shared_ptr<HostWorld> world_;
  std::mutex mutex_;
  std::deque<Incoming> arrived_;
  bool sent_ = false;
  std::unique_ptr<bootstrap::HostMesh> mesh_;  // last: its thread uses what is above
};

}  // namespace

Result<std::unique_ptr<HostLink>> make_mesh_link(std::shared_ptr<HostWorld> world, const std::vector<int>& leaders,
                                                 int host, const std::string& key) {
  auto link = std::make_unique<MeshLink>(std::move(world));
  XOE_TRY(link->connect(leaders, host, key));
  return link;
}

}  // namespace xoe::hierarchical
