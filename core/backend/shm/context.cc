#include "core/backend/shm/context.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "core/backend/shm/wakeup_channel.h"
#include "core/base/cgroup.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/bootstrap/await_ranks.h"

namespace xoe::shm {
namespace {

static_assert(sizeof(ArenaHeader) <= Context::kFirstBlock && Context::kFirstBlock % alignof(RankBlock) == 0);

// Creates this rank's arena with its header filled in.
Result<std::shared_ptr<Arena>> make_arena(int rank, std::size_t bytes) {
  XOE_ASSIGN(auto arena, Arena::create(bytes, Context::kReserved));
  auto* header = new (arena->mapping()->base()) ArenaHeader{};
  header->rank = rank;
  header->pid = ::getpid();
  header->membarrier = register_membarrier() ? 1 : 0;
  if (::sched_getaffinity(0, sizeof header->cpus, &header->cpus) != 0) CPU_SET(0, &header->cpus);
  if (::getrandom(&header->nonce, sizeof header->nonce, 0) != sizeof header->nonce)
    return failure(Code::kInternal, "no random number for the shared arena: {}", errno_text(errno));
  reinterpret_cast<RankBlock*>(arena->mapping()->base() + Context::kFirstBlock)->done.store(kBeforeFirst);
  header->magic.store(kArenaMagic, std::memory_order_release);
  return arena;
}

// The text that a rank publishes: "pid descriptor nonce".
std::string advertise(const Arena& arena) {
  const auto& header = *reinterpret_cast<const ArenaHeader*>(arena.mapping()->base());
  return fmt::format("{} {} {}", header.pid, arena.fd(), static_cast<std::int64_t>(header.nonce));
}

bool has_ended(const Fd& process) {
  pollfd entry{.fd = process.get(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

tl::unexpected<Error> ended_early(int rank, pid_t pid) {
  return failure(Code::kPeerLost, "rank {} (pid {}) ended while the group was forming", rank, pid);
}

// Waits for the text that `rank` publishes; fails if a rank that has already joined ends meanwhile.
Result<std::string> await_peer(bootstrap::Store& store, const std::string& key, const Context& context, int rank,
                               const std::vector<Member>& members, const std::vector<Fd>& processes,
                               Clock::time_point deadline) {
  constexpr Clock::duration kSlice = std::chrono::milliseconds(200);
  const auto began = Clock::now();
  while (true) {
    const auto left = std::max(deadline - Clock::now(), Clock::duration(1));
    auto value = store.get(key, std::min(left, kSlice));
    if (value || value.error().code() != Code::kTimeout) return value;
    if (const std::string line = bootstrap::ended_line(store, context.job_rank(rank)); !line.empty())
      return failure(Code::kPeerLost, "rank {}, before it joined the others with init()", line);
    for (std::size_t r = 0; r < processes.size(); ++r)
      if (processes[r].valid() && has_ended(processes[r]))
        return ended_early(context.job_rank(static_cast<int>(r)), members[r].pid);
    if (Clock::now() >= deadline)
      return failure(Code::kTimeout, "rank {} did not appear within {}: did it start, and call init()?",
                     context.job_rank(rank),
                     human_seconds(std::chrono::duration<double>(Clock::now() - began).count()));
  }
}

Result<Member> open_member(int rank, const std::string& advertised, Fd& process) {
  const auto fields = split_text(advertised, ' ');
  std::vector<std::int64_t> numbers;
  for (const auto& field : fields)
    if (const auto number = parse_integer(field)) numbers.push_back(*number);
  if (fields.size() != 3 || numbers.size() != 3)
    return failure(Code::kInternal, "rank {} published '{}' as its shared arena", rank, advertised);
  const auto pid = static_cast<pid_t>(numbers[0]);
  // The pidfd first: if the nonce matches after that, the pidfd is the process that owns the arena.
  XOE_ASSIGN(process, bootstrap::PeerWatch::open(pid));
  const auto path = fmt::format("/proc/{}/fd/{}", pid, numbers[1]);
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info {};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    const int why = errno;
    if (has_ended(process)) return ended_early(rank, pid);
    return failure(Code::kUnavailable,
                   "cannot map the memory of rank {} (pid {}): {}. The ranks of a host must run as the same user "
                   "and in the same PID namespace",
                   rank, pid, errno_text(why));
  }
  XOE_ASSIGN(auto mapping, Mapping::map(fd.get(), static_cast<std::size_t>(info.st_size)));
  Member member{std::move(mapping), pid};
  if (member.mapping->bytes() < Context::kReserved ||
      member.header().magic.load(std::memory_order_acquire) != kArenaMagic ||
      member.header().nonce != static_cast<std::uint64_t>(numbers[2]))
    return failure(Code::kUnavailable, "the memory of rank {} (pid {}) is not an Xoe arena of this job", rank, pid);
  return member;
}

}  // namespace

Result<std::shared_ptr<Context>> Context::join(const Topology& topology, bootstrap::Store& store, std::string_view keys,
                                               std::chrono::nanoseconds timeout, std::size_t arena_bytes,
                                               std::vector<int> job_ranks) {
  const int size = topology.local_size;
  if (size < 1 || size > kMaxRanks)
    return failure(Code::kUnsupported, "{} ranks on one host: the shared-memory backend takes 1 to {}", size,
                   kMaxRanks);
  XOE_ASSIGN(auto arena, make_arena(topology.local_rank, arena_bytes));
  std::shared_ptr<Context> context(new Context(topology.local_rank, std::move(arena)));
  context->job_ranks_ = std::move(job_ranks);
  const auto key = [keys](int rank) { return fmt::format("{}{}", keys, rank); };
  if (size > 1) XOE_TRY(store.set(key(context->rank_), advertise(*context->arena_)));
  const auto deadline = Clock::now() + timeout;
  std::vector<Fd> processes;
  for (int rank = 0; rank < size; ++rank) {
    Fd process;
    if (rank == context->rank_) {
      context->members_.push_back({context->arena_->mapping(), ::getpid()});
    } else {
      XOE_ASSIGN(const auto advertised,
                 await_peer(store, key(rank), *context, rank, context->members_, processes, deadline));
      XOE_ASSIGN(auto member, open_member(context->job_rank(rank), advertised, process));
      context->members_.push_back(std::move(member));
    }
    processes.push_back(std::move(process));
  }
  context->finish_join();
  if (size == 1) return context;
  XOE_ASSIGN(context->watch_, bootstrap::PeerWatch::start(
                                  std::move(processes), [at = context.get()](int ended) { at->notify_ended(ended); }));
  return context;
}

Result<std::vector<std::shared_ptr<Context>>> Context::threads(int size, std::size_t arena_bytes) {
  if (size < 1 || size > kMaxRanks)
    return failure(Code::kInvalidArgument, "{} ranks: expected 1 to {}", size, kMaxRanks);
  std::vector<std::shared_ptr<Context>> contexts;
  std::vector<Member> members;
  for (int rank = 0; rank < size; ++rank) {
    XOE_ASSIGN(auto arena, make_arena(rank, arena_bytes));
    members.push_back({arena->mapping(), ::getpid()});
    contexts.push_back(std::shared_ptr<Context>(new Context(rank, std::move(arena))));
  }
  for (const auto& context : contexts) {
    context->members_ = members;
    context->finish_join();
  }
  return contexts;
}

void Context::finish_join() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  asymmetric_fence_ = true;
  for (const Member& member : members_) {
    CPU_OR(&cpus, &cpus, &member.header().cpus);
    asymmetric_fence_ = asymmetric_fence_ && member.header().membarrier != 0;
  }
  const double cores = CPU_COUNT(&cpus);
  oversubscribed_ = size() > std::min(cores, read_cpu_quota().value_or(cores));
}

void Context::on_ended(std::function<void(int)> listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

void Context::notify_ended(int rank) {
  // Only one thread calls this.
  const int order = ended_count_.load(std::memory_order_relaxed) + 1;
  ended_[index(rank)].store(order, std::memory_order_release);
  ended_count_.store(order, std::memory_order_release);
  {
    const std::lock_guard lock(listener_mutex_);
    if (listener_) listener_(rank);
  }
  wake(member(rank_).header().wakeup);
}

void Context::retire(std::size_t block_offset, int size, std::vector<Extent> extents) {
  if (block_offset == kFirstBlock) return;
  {
    const std::lock_guard lock(retired_mutex_);
    retired_.push_back({block_offset, size, std::move(extents)});
  }
  reclaim();
}

void Context::reclaim() {
  const std::lock_guard lock(retired_mutex_);
  std::erase_if(retired_, [this](const Retired& retired) {
    const auto& block = *reinterpret_cast<const RankBlock*>(arena_->mapping()->base() + retired.offset);
    for (int r = 0; r < retired.size; ++r)
      if (!block.left.has(r)) return false;
    arena_->release(retired.offset, sizeof(RankBlock));
    for (const Extent& extent : retired.extents) arena_->release(extent.offset, extent.bytes);
    return true;
  });
}

}  // namespace xoe::shm
