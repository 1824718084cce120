#include "core/backend/shm/backend.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "core/backend/exchange.h"
#include "core/backend/shm/leader_channel.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::shm {
namespace {

class ShmWork final : public Handle::Work {
 public:
  ShmWork(std::shared_ptr<OperationQueue> operations, OperationQueue::Pending& pending)
      : operations_(std::move(operations)), pending_(pending) {}
  ~ShmWork() override { operations_->release(pending_); }

  Result<bool> test() override {
    if (!pending_.finished) [[maybe_unused]]
      const Status ignored = operations_->progress();  // pending_ has its own error
    if (pending_.error) return failure(*pending_.error);
    return pending_.finished;
  }
  Status wait() override { return operations_->wait(pending_); }

 private:
  std::shared_ptr<OperationQueue> operations_;
  OperationQueue::Pending& pending_;
};

Group whole_group(std::shared_ptr<Context> context) {
  std::vector<int> ranks(static_cast<std::size_t>(context->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::vector<std::size_t> blocks(ranks.size(), Context::kFirstBlock);
  const int rank = context->rank();
  return Group(std::move(context), std::move(ranks), blocks, rank);
}

constexpr std::uint64_t kNoMemory = ~std::uint64_t{0};
constexpr int kOffsetBits = 48;  // of a block's number: its rank lies above its offset in that rank's arena

struct SplitRequest {
  std::int64_t color;
  std::int64_t key;
  std::uint64_t block;  // its offset in the rank's arena
};

tl::unexpected<Error> arena_full(std::string_view what, int rank, std::size_t bytes) {
  return failure(Code::kResourceExhausted, "{}: rank {} has no {} left in its shared arena; raise XOE_ARENA_BYTES",
                 what, rank, human_bytes(bytes));
}

}  // namespace

ShmBackend::ShmBackend(std::shared_ptr<Context> context, WaitPolicy policy, const std::vector<int>& hosts)
    : ShmBackend(std::make_shared<OperationQueue>(whole_group(std::move(context)), std::move(policy)), hosts) {}

ShmBackend::ShmBackend(std::shared_ptr<OperationQueue> operations, const std::vector<int>& hosts)
    : operations_(std::move(operations)) {
  const Group& group = operations_->group();
  const std::vector<int> one_host(static_cast<std::size_t>(group.size()));
  placement_ = make_placement(hosts.empty() ? one_host : hosts, group.rank());
  topology_ = placement_.topology();
}

ShmBackend::~ShmBackend() { operations_->leave(); }

Result<std::shared_ptr<Handle::Work>> ShmBackend::start(const Collective& collective) {
  return std::shared_ptr<Handle::Work>(std::make_shared<ShmWork>(operations_, operations_->start(collective)));
}

Result<std::unique_ptr<Backend>> ShmBackend::split(int color, int key) {
  const Group& group = operations_->group();
  group.context().reclaim();
  const auto& arena = group.context().arena();
  SplitRequest mine{color, key, kNoMemory};
  if (color >= 0) {
    if (const auto offset = arena->allocate(sizeof(RankBlock))) {
      mine.block = *offset;
      group.context().member(group.context_rank(group.rank())).block_at(*offset).done.store(kBeforeFirst);
    }
  }
  // After a failed exchange the block stays allocated: peers whose exchange succeeded may use it.
  XOE_ASSIGN(const auto requests, exchange(*operations_, topology_, mine, {.name = "split"}));
  if (color < 0) return std::unique_ptr<Backend>();
  const std::vector<int> members = split_members(requests, color);
  std::vector<int> context_ranks, hosts;
  std::vector<std::size_t> blocks;
  for (const int r : members) {
    context_ranks.push_back(group.context_rank(r));
    hosts.push_back(placement_.hosts[index(r)]);
    blocks.push_back(requests[index(r)].block);
  }
  if (const auto full = std::ranges::find(blocks, kNoMemory); full != blocks.end()) {
    if (mine.block != kNoMemory) arena->release(mine.block, sizeof(RankBlock));
    return arena_full("split", members[static_cast<std::size_t>(full - blocks.begin())], sizeof(RankBlock));
  }
  const auto rank = static_cast<int>(std::ranges::find(members, group.rank()) - members.begin());
  auto operations = std::make_shared<OperationQueue>(
      Group(group.shared_context(), std::move(context_ranks), blocks, rank), operations_->policy());
  return std::unique_ptr<Backend>(new ShmBackend(std::move(operations), hosts));
}

Result<std::byte*> ShmBackend::host_memory(std::size_t bytes) {
  const Group& group = operations_->group();
  std::uint64_t mine = kNoMemory;
  if (topology_.local_rank == 0) {
    if (const auto offset = group.context().arena()->allocate(bytes)) mine = *offset;
  }
  XOE_ASSIGN(const auto offsets, exchange(*operations_, topology_, mine, {.name = "host_memory"}));
  if (mine != kNoMemory) operations_->own({mine, bytes});
  const int leader = placement_.local_ranks().front();
  const std::uint64_t offset = offsets[index(leader)];
  if (offset == kNoMemory) return arena_full("host_memory", leader, bytes);
  return group.address(leader, offset);
}

Result<std::uint64_t> ShmBackend::allocate_block(std::size_t bytes) {
  const Group& group = operations_->group();
  XOE_ASSIGN(const std::uint64_t offset, group.context().arena()->allocate(bytes));
  operations_->own({offset, bytes});
  return static_cast<std::uint64_t>(group.rank()) << kOffsetBits | offset;
}

std::byte* ShmBackend::block_address(std::uint64_t block) const noexcept {
  const auto rank = static_cast<int>(block >> kOffsetBits);
  return operations_->group().address(rank, block & ((std::uint64_t{1} << kOffsetBits) - 1));
}

std::optional<std::uint64_t> ShmBackend::block_of(const SharedBuffer& buffer) const noexcept {
  const Group& group = operations_->group();
  if (!group.context().arena()->shares(buffer.data(), buffer.bytes())) return std::nullopt;
  const auto offset = static_cast<std::uint64_t>(buffer.data() - group.arena().base());
  return static_cast<std::uint64_t>(group.rank()) << kOffsetBits | offset;
}

SharedBuffer ShmBackend::view(std::uint64_t block, std::size_t bytes) const {
  const auto rank = static_cast<int>(block >> kOffsetBits);
  return SharedBuffer(operations_->group().member(rank).mapping, block_address(block), bytes);
}

Result<std::unique_ptr<LeaderChannel>> ShmBackend::leader_channel() {
  XOE_ASSIGN(SharedBuffer mine, shared_buffer(leader_channel_bytes(placement_.ranks_of.size())));
  XOE_ASSIGN(const auto by_rank, map_peers(mine, {.name = "leader_channel"}));
  channel_memory_.push_back(std::move(mine));
  if (topology_.local_rank != 0) return std::unique_ptr<LeaderChannel>();
  std::vector<std::byte*> by_host;
  for (const int leader : placement_.leaders()) by_host.push_back(by_rank[index(leader)]);
  return make_leader_channel(by_host, placement_.host());
}

Result<SharedBuffer> ShmBackend::shared_buffer(std::size_t bytes) {
  const auto& arena = operations_->group().context().arena();
  XOE_ASSIGN(const std::size_t offset, arena->allocate(bytes));
  std::byte* data = arena->mapping()->base() + offset;
  std::shared_ptr<void> owner(data, [arena, offset, bytes](void*) { arena->release(offset, bytes); });
  return SharedBuffer(std::move(owner), data, bytes);
}

Result<std::vector<std::byte*>> ShmBackend::map_peers(const SharedBuffer& mine, const OpOptions& options) {
  const Group& group = operations_->group();
  if (!group.context().arena()->shares(mine.data(), mine.bytes()))
    return failure(Code::kInvalidArgument, "map_peers: the buffer is not a shared_buffer of this communicator's job");
  const Context::Extent extent{static_cast<std::size_t>(mine.data() - group.arena().base()), mine.bytes()};
  XOE_ASSIGN(const auto extents,
             exchange(*operations_, topology_, extent, {.name = "map_peers", .timeout = options.timeout}));
  std::vector<std::byte*> addresses;
  for (int r = 0; r < group.size(); ++r) {
    const Context::Extent& theirs = extents[index(r)];
    if (theirs.bytes != extents[0].bytes)
      return failure(Code::kInvalidArgument, "map_peers: rank 0's buffer has {}, rank {}'s has {}",
                     human_bytes(extents[0].bytes), r, human_bytes(theirs.bytes));
    addresses.push_back(group.address(r, theirs.offset));
  }
  return addresses;
}

}  // namespace xoe::shm
