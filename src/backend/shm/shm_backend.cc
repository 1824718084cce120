#include "backend/shm/shm_backend.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <numeric>
#include <tuple>

#include "backend/shm/mailbox_link.h"
#include "base/error.h"
#include "base/text.h"
#include "reduce/reduce.h"

namespace xoe::shm {
namespace {

class ShmWork final : public Handle::Work {
 public:
  ShmWork(std::shared_ptr<Core> core, Core::Pending& pending) : core_(std::move(core)), pending_(pending) {}
  ~ShmWork() override { core_->release(pending_); }

  Result<bool> test() override {
    if (!pending_.finished) [[maybe_unused]]
      const Status ignored = core_->progress();  // pending_ has its own error
    if (pending_.error) return failure(*pending_.error);
    return pending_.finished;
  }
  Status wait() override { return core_->wait(pending_); }

 private:
  std::shared_ptr<Core> core_;
  Core::Pending& pending_;
};

std::vector<int> all_ranks(const World& world) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Group whole_group(std::shared_ptr<World> world) {
  auto ranks = all_ranks(*world);
  const std::vector<std::size_t> blocks(ranks.size(), World::kFirstBlock);
  const int rank = world->rank();
  return Group(std::move(world), std::move(ranks), blocks, rank);
}

// Allgather of one small struct. The name keeps it apart from the program's own operations.
template <class T>
Result<std::vector<T>> exchange(Core& core, const T& mine, const OpOptions& options) {
  const auto size = static_cast<std::size_t>(core.group().size());
  std::vector<T> all(size);
  const std::vector<std::size_t> counts(size, sizeof(T));
  Collective gather{.kind = CollectiveKind::kAllgather,
                    .dtype = DType::kUint8,
                    .in = &mine,
                    .out = all.data(),
                    .in_count = sizeof(T),
                    .out_count = size * sizeof(T),
                    .send_counts = counts,
                    .options = options};
  XOE_TRY(core.run(gather));
  return all;
}

// Local ranks count in the order of the ranks; cross ranks count the hosts that have as many.
Topology topology_of(const std::vector<int>& hosts, int rank) {
  const int mine = hosts[static_cast<std::size_t>(rank)];
  std::vector<int> local_sizes(static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end())) + 1);
  Topology t{.rank = rank, .size = static_cast<int>(hosts.size()), .cross_size = 0};
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    const int before = local_sizes[static_cast<std::size_t>(hosts[r])]++;
    if (static_cast<int>(r) == rank) t.local_rank = before;
  }
  t.local_size = local_sizes[static_cast<std::size_t>(mine)];
  for (std::size_t host = 0; host < local_sizes.size(); ++host) {
    if (local_sizes[host] <= t.local_rank) continue;
    if (static_cast<int>(host) == mine) t.cross_rank = t.cross_size;
    ++t.cross_size;
  }
  return t;
}

// The hosts of some ranks, numbered anew.
std::vector<int> hosts_of(const std::vector<int>& hosts, const std::vector<int>& ranks) {
  std::vector<int> known, chosen;
  for (const int rank : ranks) {
    const int host = hosts[static_cast<std::size_t>(rank)];
    const auto place = std::find(known.begin(), known.end(), host);
    chosen.push_back(static_cast<int>(place - known.begin()));
    if (place == known.end()) known.push_back(host);
  }
  return chosen;
}

constexpr std::uint64_t kNoBlock = ~std::uint64_t{0};

struct SplitRequest {
  std::int64_t color;
  std::int64_t key;
  std::uint64_t block;
};

}  // namespace

ShmBackend::ShmBackend(std::shared_ptr<World> world, std::chrono::nanoseconds default_timeout, std::vector<int> hosts)
    : ShmBackend(std::make_shared<Core>(whole_group(std::move(world)), default_timeout), std::move(hosts)) {}

ShmBackend::ShmBackend(std::shared_ptr<Core> core, std::vector<int> hosts)
    : core_(std::move(core)), hosts_(std::move(hosts)) {
  const Group& group = core_->group();
  hosts_.resize(static_cast<std::size_t>(group.size()), 0);
  topology_ = topology_of(hosts_, group.rank());
}

ShmBackend::~ShmBackend() { core_->leave(); }

Status ShmBackend::supports(const Collective& collective) const {
  XOE_TRY(check_host_memory(collective, "shm"));
  if (collective.kind == CollectiveKind::kAllreduce || collective.kind == CollectiveKind::kReduceScatter)
    return reduce::supports(collective.dtype, collective.op);
  return {};
}

Result<std::shared_ptr<Handle::Work>> ShmBackend::start(const Collective& collective) {
  return std::shared_ptr<Handle::Work>(std::make_shared<ShmWork>(core_, core_->start(collective)));
}

Result<std::unique_ptr<Backend>> ShmBackend::split(int color, int key) {
  World& world = core_->group().world();
  world.reclaim();
  SplitRequest mine{color, key, kNoBlock};
  if (color >= 0) {
    if (const auto offset = world.arena()->allocate(sizeof(RankBlock))) mine.block = *offset;
  }
  auto exchanged = exchange(*core_, mine, {.name = "split"});
  // The block is not given back then: peers for whom the exchange went well may use it.
  if (!exchanged) return failure(std::move(exchanged).error());
  if (color < 0) return std::unique_ptr<Backend>();
  std::vector<int> members;  // parent ranks
  const auto& requests = *exchanged;
  for (std::size_t r = 0; r < requests.size(); ++r)
    if (requests[r].color == color) members.push_back(static_cast<int>(r));
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return requests[static_cast<std::size_t>(a)].key < requests[static_cast<std::size_t>(b)].key;
  });
  std::vector<int> world_ranks;
  std::vector<std::size_t> blocks;
  int rank = 0;
  for (const int r : members) {
    if (r == core_->group().rank()) rank = static_cast<int>(blocks.size());
    world_ranks.push_back(core_->group().world_rank(r));
    blocks.push_back(requests[static_cast<std::size_t>(r)].block);
  }
  if (const auto full = std::find(blocks.begin(), blocks.end(), kNoBlock); full != blocks.end()) {
    if (mine.block != kNoBlock) world.arena()->release(mine.block, sizeof(RankBlock));
    return failure(Code::kResourceExhausted, "split: rank {} has no {} left in its shared arena; raise XOE_ARENA_BYTES",
                   members[static_cast<std::size_t>(full - blocks.begin())], human_bytes(sizeof(RankBlock)));
  }
  auto core = std::make_shared<Core>(Group(core_->group().shared_world(), std::move(world_ranks), blocks, rank),
                                     core_->default_timeout());
  return std::unique_ptr<Backend>(new ShmBackend(std::move(core), hosts_of(hosts_, members)));
}

Result<std::byte*> ShmBackend::host_memory(std::size_t bytes) {
  const Group& group = core_->group();
  const auto& arena = group.world().arena();
  std::uint64_t mine = kNoBlock;
  if (topology_.local_rank == 0) {
    if (const auto offset = arena->allocate(bytes)) mine = *offset;
  }
  XOE_ASSIGN(const auto offsets, exchange(*core_, mine, {.name = "host_memory"}));
  if (mine != kNoBlock) core_->own({mine, bytes});
  const auto host = hosts_[static_cast<std::size_t>(group.rank())];
  const auto owner = std::find(hosts_.begin(), hosts_.end(), host) - hosts_.begin();
  const std::uint64_t offset = offsets[static_cast<std::size_t>(owner)];
  if (offset == kNoBlock)
    return failure(Code::kResourceExhausted, "rank {} has no {} left in its shared arena; raise XOE_ARENA_BYTES", owner,
                   human_bytes(bytes));
  return group.address(static_cast<int>(owner), offset);
}

Result<std::unique_ptr<HostLink>> ShmBackend::host_link() {
  const auto count = static_cast<std::size_t>(*std::max_element(hosts_.begin(), hosts_.end())) + 1;
  XOE_ASSIGN(SharedBuffer mine, shared_buffer(mailbox_bytes(count)));
  XOE_ASSIGN(const auto by_rank, map_peers(mine, {.name = "host_link"}));
  mailboxes_.push_back(std::move(mine));
  std::vector<std::byte*> leaders;
  for (std::size_t r = 0; r < hosts_.size(); ++r)
    if (hosts_[r] == static_cast<int>(leaders.size())) leaders.push_back(by_rank[r]);
  if (topology_.local_rank != 0) return std::unique_ptr<HostLink>();
  return make_mailbox_link(leaders, hosts_[static_cast<std::size_t>(topology_.rank)]);
}

Result<SharedBuffer> ShmBackend::shared_buffer(std::size_t bytes) {
  const auto& arena = core_->group().world().arena();
  XOE_ASSIGN(const std::size_t offset, arena->allocate(bytes));
  std::byte* data = arena->mapping()->base() + offset;
  std::shared_ptr<void> owner(data, [arena, offset, bytes](void*) { arena->release(offset, bytes); });
  return SharedBuffer(std::move(owner), data, bytes);
}

Result<std::vector<std::byte*>> ShmBackend::map_peers(const SharedBuffer& mine, const OpOptions& options) {
  const Group& group = core_->group();
  const Mapping& arena = *group.member(group.rank()).mapping;
  if (!arena.contains(mine.data(), mine.bytes()))
    return failure(Code::kInvalidArgument, "map_peers: the buffer is not a shared_buffer of this communicator's job");
  struct Place {
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  const Place place{static_cast<std::uint64_t>(mine.data() - arena.base()), mine.bytes()};
  XOE_ASSIGN(const auto places, exchange(*core_, place, {.name = "map_peers", .timeout = options.timeout}));
  std::vector<std::byte*> addresses;
  for (int r = 0; r < group.size(); ++r) {
    const Place& theirs = places[static_cast<std::size_t>(r)];
    if (theirs.bytes != places[0].bytes)
      return failure(Code::kInvalidArgument, "map_peers: rank 0's buffer has {}, rank {}'s has {}",
                     human_bytes(places[0].bytes), r, human_bytes(theirs.bytes));
    addresses.push_back(group.address(r, theirs.offset));
  }
  return addresses;
}

}  // namespace xoe::shm
