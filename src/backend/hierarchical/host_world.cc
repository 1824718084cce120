#include "backend/hierarchical/host_world.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "backend/shm/bell.h"
#include "base/error.h"

namespace xoe::hierarchical {
namespace {

AlarmEvent make_event(AlarmEvent::Kind kind, int rank, std::string_view text) {
  AlarmEvent event{.kind = kind, .rank = rank, .code = static_cast<std::uint32_t>(Code::kPeerLost)};
  text.substr(0, sizeof event.text - 1).copy(event.text, sizeof event.text - 1);
  return event;
}

// The goodbyes lie behind the log.
std::size_t log_bytes() { return (AlarmLog::bytes() + 63) / 64 * 64; }

}  // namespace

Result<std::shared_ptr<HostWorld>> HostWorld::join(const std::vector<RankFacts>& ranks, int rank,
                                                   std::shared_ptr<bootstrap::Store> store,
                                                   std::unique_ptr<net::Provider> provider, WorldOptions options) {
  std::shared_ptr<HostWorld> world(new HostWorld());
  world->owner_ = ::getpid();
  world->options_ = std::move(options);
  world->facts_ = ranks;
  world->store_ = std::move(store);
  world->provider_ = std::move(provider);
  std::vector<int> hosts;
  for (const RankFacts& facts : ranks) {
    const auto first = std::ranges::find(ranks, facts.host, &RankFacts::host);
    hosts.push_back(static_cast<int>(first - ranks.begin()));
  }
  world->placement_ = place(hosts, rank);
  const auto& at = world->options_;
  XOE_ASSIGN(world->memory_, shm::World::join(world->placement_.topology(), *world->store_,
                                              fmt::format("{}shm/{}/", at.keys, world->placement_.host()),
                                              at.start_timeout, at.arena_bytes, world->placement_.neighbours()));
  world->control_ = std::make_unique<shm::ShmBackend>(world->memory_, at.timeout);
  XOE_TRY(world->connect());
  return world;
}

Status HostWorld::connect() {
  XOE_ASSIGN(std::byte* const memory, control_->host_memory(log_bytes() + sizeof(std::uint64_t)));
  goodbyes_ = reinterpret_cast<std::atomic<std::uint64_t>*>(memory + log_bytes());
  log_.emplace(memory);
  const bool leads = placement_.local_rank() == 0;
  if (leads) XOE_TRY(connect_hosts());
  alarm_ = std::make_unique<Alarm>(
      *log_, leads ? [this](const AlarmEvent& event) { tell_hosts(event); } : std::function<void(const AlarmEvent&)>());
  memory_->tell_ends([this](int local_rank) { on_local_end(local_rank); });
  for (int local_rank = 0; local_rank < memory_->size(); ++local_rank)
    if (memory_->ended(local_rank) != 0) on_local_end(local_rank);
  return {};
}

Status HostWorld::connect_hosts() {
  std::vector<int> leaders;
  for (const auto& ranks : placement_.ranks_of) leaders.push_back(ranks.front());
  const auto exchanged = [&](std::string mine) { return exchange(options_.keys + "mesh", leaders, std::move(mine)); };
  bootstrap::MeshEvents events;
  events.message = [this](int, const std::string& message) {
    AlarmEvent event;
    if (message.size() != sizeof event) return;
    std::memcpy(&event, message.data(), sizeof event);
    event.foreign = 1;
    log_->tell(event);
  };
  events.lost = [this](int host, bool silent, const std::string& why) { on_host_lost(host, silent, why); };
  XOE_ASSIGN(mesh_, bootstrap::HostMesh::connect(
                        placement_.host(), placement_.host_count(), exchanged,
                        {.address = options_.address, .secret = options_.secret, .silence = options_.silence},
                        std::chrono::steady_clock::now() + options_.start_timeout, std::move(events)));
  return {};
}

bool HostWorld::in_its_process() const noexcept { return ::getpid() == owner_; }

void HostWorld::wake() const noexcept { shm::ring(memory_->member(memory_->rank()).header().bell); }

HostWorld::~HostWorld() {
  if (!in_its_process()) {  // their threads are the parent's
    [[maybe_unused]] auto* const alarm = alarm_.release();
    [[maybe_unused]] auto* const mesh = mesh_.release();
    [[maybe_unused]] auto* const provider = provider_.release();
    return;
  }
  if (memory_ != nullptr) memory_->tell_ends(nullptr);
  if (goodbyes_ != nullptr) goodbyes_->fetch_or(std::uint64_t{1} << placement_.local_rank(), std::memory_order_acq_rel);
  alarm_.reset();  // it forwards to the mesh
  mesh_.reset();
}

std::string HostWorld::host_name(int host) const {
  return facts_[static_cast<std::size_t>(placement_.ranks_of[static_cast<std::size_t>(host)].front())].host;
}

std::string HostWorld::who(int rank) const {
  const RankFacts& facts = facts_[static_cast<std::size_t>(rank)];
  return fmt::format("rank {} (host {}, pid {})", rank, facts.host, facts.pid);
}

Result<std::vector<std::string>> HostWorld::exchange(const std::string& key, const std::vector<int>& members,
                                                     std::string mine) {
  XOE_TRY(store_->set(fmt::format("{}/{}", key, rank()), mine));
  std::vector<std::string> keys;
  for (const int member : members) keys.push_back(fmt::format("{}/{}", key, member));
  return store_->get_all(keys, options_.start_timeout);
}

void HostWorld::on_local_end(int local_rank) {
  if ((goodbyes_->load(std::memory_order_acquire) >> local_rank & 1) != 0) return;
  // Every rank of the host sees this itself; one of them tells, and the leader of the host above all, since it alone
  // reaches the others.
  const int teller = local_rank == 0 ? 1 : 0;
  if (placement_.local_rank() != teller) return;
  const int rank = placement_.neighbours()[static_cast<std::size_t>(local_rank)];
  log_->tell(make_event(AlarmEvent::Kind::kRankLost, rank,
                        who(rank) + " ended without leaving the group (killed, crashed or exited early)"));
}

// Every leader sees this itself. Who closed the connection was the leader over there.
void HostWorld::on_host_lost(int host, bool silent, const std::string& why) {
  const auto& ranks = placement_.ranks_of[static_cast<std::size_t>(host)];
  AlarmEvent event = silent ? make_event(AlarmEvent::Kind::kHostLost, host,
                                         fmt::format("host {} ({} {}) is gone: {}", host_name(host),
                                                     ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "), why))
                            : make_event(AlarmEvent::Kind::kRankLost, ranks.front(),
                                         fmt::format("{} ended without leaving the group, or its host is gone: {}",
                                                     who(ranks.front()), why));
  event.foreign = 1;
  log_->tell(event);
}

void HostWorld::tell_hosts(const AlarmEvent& event) {
  if (mesh_ == nullptr) return;
  const std::string_view bytes(reinterpret_cast<const char*>(&event), sizeof event);
  for (int host = 0; host < placement_.host_count(); ++host)
    if (host != placement_.host()) mesh_->send(host, bytes);
}

}  // namespace xoe::hierarchical
