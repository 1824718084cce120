#include "core/backend/hierarchical/leader_channel.h"

#include <deque>
#include <mutex>
#include <utility>

#include "core/base/error.h"

namespace xoe::hierarchical {
namespace {

class MeshLeaderChannel final : public LeaderChannel {
 public:
  explicit MeshLeaderChannel(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  Status connect(const std::vector<int>& leaders, int host, const std::string& key) {
    bootstrap::MeshEvents events;
    events.message = [this](bootstrap::HostMesh&, int from, const std::string& message) {
      const auto* bytes = reinterpret_cast<const std::byte*>(message.data());
      {
        const std::lock_guard lock(mutex_);
        arrived_.push_back({from, {bytes, bytes + message.size()}});
      }
      context_->wake();
    };
    events.lost = [this, leaders](int member, bool silent, const std::string& why) {
      context_->on_leader_lost(leaders[index(member)], silent, why);
    };
    // The context's mesh alone judges silence: if this one found a host lost that the other still heard, messages to it
    // would be dropped for ever.
    const HostTree tree{.hosts = static_cast<int>(leaders.size())};
    XOE_ASSIGN(mesh_, context_->connect_mesh(key, leaders, host, tree.neighbours(host), std::chrono::nanoseconds(),
                                             std::move(events)));
    return {};
  }

  void send(int to_host, std::vector<std::byte> message) override {
    mesh_->send(to_host, {reinterpret_cast<const char*>(message.data()), message.size()});
    sent_ = true;
  }
  bool progress() override { return std::exchange(sent_, false); }  // the mesh's thread sends

  std::optional<Incoming> receive() override {
    const std::lock_guard lock(mutex_);
    if (arrived_.empty()) return std::nullopt;
    Incoming incoming = std::move(arrived_.front());
    arrived_.pop_front();
    return incoming;
  }

 private:
  std::shared_ptr<Context> context_;
  std::mutex mutex_;
  std::deque<Incoming> arrived_;
  bool sent_ = false;
  std::unique_ptr<bootstrap::HostMesh> mesh_;  // last: its thread uses the members above
};

}  // namespace

Result<std::unique_ptr<LeaderChannel>> make_leader_channel(std::shared_ptr<Context> context,
                                                           const std::vector<int>& leaders, int host,
                                                           const std::string& key) {
  auto channel = std::make_unique<MeshLeaderChannel>(std::move(context));
  XOE_TRY(channel->connect(leaders, host, key));
  return channel;
}

}  // namespace xoe::hierarchical
