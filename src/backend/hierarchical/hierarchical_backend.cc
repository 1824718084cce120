#include "backend/hierarchical/hierarchical_backend.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/hierarchical/mesh_link.h"
#include "base/error.h"
#include "base/hash.h"
#include "reduce/reduce.h"

namespace xoe::hierarchical {
namespace {

// Who sees a connection break waits so long for word of what happened.
constexpr std::chrono::milliseconds kCausePatience(1500);

struct SplitRequest {
  std::int64_t color;
  std::int64_t key;
};

}  // namespace

// A collective that was started, with copies of what its caller may forget.
class HierarchicalBackend::Task final : public Handle::Work {
 public:
  explicit Task(const Collective& collective)
      : collective_(collective),
        name_(collective.options.name),
        send_counts_(collective.send_counts.begin(), collective.send_counts.end()),
        recv_counts_(collective.recv_counts.begin(), collective.recv_counts.end()),
        segments_(collective.segments.begin(), collective.segments.end()) {
    collective_.options.name = name_;
    collective_.send_counts = send_counts_;
    collective_.recv_counts = recv_counts_;
    collective_.segments = segments_;
  }

  const Collective& collective() const noexcept { return collective_; }

  void finish(Status status) {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    finished_.store(true, std::memory_order_release);
    changed_.notify_all();
  }

  Result<bool> test() override {
    if (!finished_.load(std::memory_order_acquire)) return false;
    if (!status_) return failure(status_.error());
    return true;
  }
  Status wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished_.load(std::memory_order_acquire); });
    return status_;
  }

 private:
  Collective collective_;
  std::string name_;
  std::vector<std::size_t> send_counts_, recv_counts_;
  std::vector<Segment> segments_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Status status_;
  std::atomic<bool> finished_ = false;
};

HierarchicalBackend::HierarchicalBackend(std::shared_ptr<HostWorld> world, std::vector<int> ranks, std::uint64_t number,
                                         std::unique_ptr<shm::ShmBackend> local)
    : world_(std::move(world)), ranks_(std::move(ranks)), number_(number), local_(std::move(local)) {
  std::vector<int> hosts;
  for (const int rank : ranks_) hosts.push_back(world_->placement().hosts[static_cast<std::size_t>(rank)]);
  const auto own = std::ranges::find(ranks_, world_->rank()) - ranks_.begin();
  placement_ = place(hosts, static_cast<int>(own));
  topology_ = placement_.topology();
}

Result<std::unique_ptr<Backend>> HierarchicalBackend::make(std::shared_ptr<HostWorld> world) {
  std::vector<int> ranks(world->placement().hosts.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  auto local = world->group_of_host();
  std::unique_ptr<HierarchicalBackend> group(
      new HierarchicalBackend(std::move(world), std::move(ranks), 1, std::move(local)));
  XOE_TRY(group->connect());
  return group;
}

Status HierarchicalBackend::connect() {
  const auto connect = [this](const std::vector<int>& members,
                              std::string_view what) -> Result<std::unique_ptr<net::Net>> {
    net::Members who;
    for (const int member : members) {
      if (member == placement_.rank) who.self = static_cast<int>(who.ranks.size());
      who.ranks.push_back(ranks_[static_cast<std::size_t>(member)]);
    }
    int round = 0;
    const auto exchange = [&](std::string mine) {
      return world_->exchange(key(fmt::format("{}/{}", what, round++)), who.ranks, std::move(mine));
    };
    return world_->provider().connect(who, exchange, net::Clock::now() + world_->options().start_timeout);
  };
  lanes_ = std::make_unique<Lanes>(placement_, *local_, world_->options().flat, connect);
  XOE_TRY(lanes_->connect());
  name_ = world_->options().flat ? std::string(lanes_->net_name()) : "hierarchical";
  listener_ = world_->alarm().listen([this](const AlarmEvent& event) { hear(event); });
  return {};
}

HierarchicalBackend::~HierarchicalBackend() {
  if (!world_->in_its_process()) {  // a forked child: its parent is the rank, and has the threads
    if (worker_.joinable()) worker_.detach();
    [[maybe_unused]] auto* const leaked = lanes_.release();
    return;
  }
  if (listener_ >= 0) world_->alarm().forget(listener_);
  {
    const std::lock_guard lock(queue_mutex_);
    stopping_ = true;
    queued_.notify_all();
    if (!queue_.empty())
      abort(Error(Code::kPeerLost,
                  world_->who(world_->rank()) + " destroyed its communicator while operations were pending"));
  }
  if (worker_.joinable()) worker_.join();
  AlarmEvent left{.kind = AlarmEvent::Kind::kRankLeft, .rank = world_->rank(), .group = number_, .done = done_};
  world_->alarm().tell(left);
}

Status HierarchicalBackend::supports(const Collective& collective) const {
  if (!world_->provider().moves_host_memory()) return lanes_->supports(collective);
  XOE_TRY(check_host_memory(collective, name_));
  if (collective.kind == CollectiveKind::kAllreduce || collective.kind == CollectiveKind::kReduceScatter)
    return reduce::supports(collective.dtype, collective.op);
  return {};
}

// --- running ---

Status HierarchicalBackend::run(const Collective& collective) {
  {
    const std::unique_lock lock(queue_mutex_);
    if (queue_.empty()) return execute(collective);  // nobody starts anything meanwhile: one thread at a time
  }
  XOE_ASSIGN(const auto work, start(collective));
  return work->wait();
}

Result<std::shared_ptr<Handle::Work>> HierarchicalBackend::start(const Collective& collective) {
  auto task = std::make_shared<Task>(collective);
  const std::lock_guard lock(queue_mutex_);
  if (!worker_.joinable()) {
    try {
      worker_ = std::jthread([this] { work(); });
    } catch (const std::system_error&) {
      return failure(Code::kResourceExhausted, "cannot start a thread (limit of processes?)");
    }
  }
  queue_.push_back(task);
  queued_.notify_all();
  return std::shared_ptr<Handle::Work>(std::move(task));
}

void HierarchicalBackend::work() {
  std::unique_lock lock(queue_mutex_);
  while (true) {
    queued_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto task = queue_.front();
    lock.unlock();
    Status status = execute(task->collective());
    lock.lock();
    queue_.pop_front();  // before the caller knows: it may run the next one itself
    task->finish(std::move(status));
    local_->wake();
  }
}

Status HierarchicalBackend::execute(const Collective& collective) {
  const std::uint64_t number = done_.load(std::memory_order_relaxed) + 1;
  const auto timeout = collective.options.timeout.value_or(world_->options().timeout);
  const Call call{.collective = collective, .number = number, .deadline = net::Clock::now() + timeout};
  const auto told = [&](const Error& cause) {
    return cause.code() == Code::kPeerLost ? failure(cause.code(), "{}: {}", call.title(), cause.message())
                                           : failure(cause);
  };
  begun_.store(number, std::memory_order_release);
  if (const auto left = left_before(number)) fail(*left);
  if (const auto known = cause()) return told(*known);
  const Status status = lanes_->run(collective, number, call.deadline);
  if (status) {
    done_.store(number, std::memory_order_release);
    return {};
  }
  return told(first_cause(status.error()));
}

// The cause of a failure that this rank saw itself: what others say of it, if they do, and else it tells them.
Error HierarchicalBackend::first_cause(const Error& seen) {
  if (seen.code() == Code::kPeerLost || seen.code() == Code::kUnavailable) {
    std::unique_lock lock(cause_mutex_);
    heard_.wait_for(lock, kCausePatience, [this] { return cause_.has_value(); });
  }
  if (fail(seen)) {
    AlarmEvent event{.kind = AlarmEvent::Kind::kGroupFailed,
                     .rank = world_->rank(),
                     .group = number_,
                     .code = static_cast<std::uint32_t>(seen.code())};
    seen.message().copy(event.text, sizeof event.text - 1);
    world_->alarm().tell(event);
  }
  return *cause();
}

// --- failing ---

std::optional<Error> HierarchicalBackend::cause() const {
  const std::lock_guard lock(cause_mutex_);
  return cause_;
}

bool HierarchicalBackend::fail(const Error& cause) {
  {
    const std::lock_guard lock(cause_mutex_);
    if (cause_) return false;
    cause_ = cause;
  }
  heard_.notify_all();
  lanes_->abort();
  local_->abort(cause);
  local_->wake();
  return true;
}

void HierarchicalBackend::abort(Error cause) {
  if (!fail(cause)) return;
  AlarmEvent event{.kind = AlarmEvent::Kind::kGroupFailed,
                   .rank = world_->rank(),
                   .group = number_,
                   .code = static_cast<std::uint32_t>(cause.code())};
  cause.message().copy(event.text, sizeof event.text - 1);
  world_->alarm().tell(event);
}

Status HierarchicalBackend::progress() {
  if (const auto known = cause()) return failure(*known);
  return {};
}

// From the alarm's thread.
void HierarchicalBackend::hear(const AlarmEvent& event) {
  const auto here = [&](int rank) {
    const std::lock_guard lock(cause_mutex_);
    const auto at = std::ranges::find(ranks_, rank);
    const auto left = [&](const Departure& departure) { return departure.rank == at - ranks_.begin(); };
    return at != ranks_.end() && std::ranges::none_of(departed_, left);
  };
  const Error cause(static_cast<Code>(event.code), event.message());
  switch (event.kind) {
    case AlarmEvent::Kind::kRankLost:
      if (here(event.rank)) fail(cause);
      return;
    case AlarmEvent::Kind::kHostLost:
      if (std::ranges::any_of(world_->placement().ranks_of[static_cast<std::size_t>(event.rank)], here)) fail(cause);
      return;
    case AlarmEvent::Kind::kGroupFailed:
      if (event.group == number_) fail(cause);
      return;
    case AlarmEvent::Kind::kRankLeft: break;
  }
  if (event.group != number_ || !here(event.rank)) return;
  {
    const std::lock_guard lock(cause_mutex_);
    const auto rank = std::ranges::find(ranks_, event.rank) - ranks_.begin();
    departed_.push_back({static_cast<int>(rank), event.done});
  }
  const auto begun = begun_.load(std::memory_order_acquire);
  if (begun > done_.load(std::memory_order_acquire))
    if (const auto left = left_before(begun)) fail(*left);
  local_->wake();
}

// A rank that left the group without having done collective number `number`.
std::optional<Error> HierarchicalBackend::left_before(std::uint64_t number) const {
  const std::lock_guard lock(cause_mutex_);
  for (const Departure& departure : departed_)
    if (departure.done < number)
      return Error(Code::kPeerLost, world_->who(ranks_[static_cast<std::size_t>(departure.rank)]) +
                                        " has left the group (its communicator was destroyed)");
  return std::nullopt;
}

std::vector<int> HierarchicalBackend::departed() const {
  const std::lock_guard lock(cause_mutex_);
  std::vector<int> ranks;
  for (const Departure& departure : departed_) ranks.push_back(departure.rank);
  return ranks;
}

// --- what groups share ---

std::string HierarchicalBackend::key(std::string_view what) {
  return fmt::format("{}{:x}/{}", world_->options().keys, number_, what);
}

Result<std::unique_ptr<Backend>> HierarchicalBackend::split(int color, int key) {
  const SplitRequest mine{color, key};
  std::vector<SplitRequest> requests(ranks_.size());
  const std::vector<std::size_t> counts(ranks_.size(), sizeof mine);
  XOE_TRY(run({.kind = CollectiveKind::kAllgather,
               .dtype = DType::kUint8,
               .in = &mine,
               .out = requests.data(),
               .in_count = sizeof mine,
               .out_count = requests.size() * sizeof mine,
               .send_counts = counts,
               .options = {.name = "split"}}));
  XOE_ASSIGN(auto local, local_->split(color, key));
  const std::uint64_t number = mix(mix(number_ + ++splits_) + static_cast<std::uint64_t>(color) + 1);
  if (color < 0) return std::unique_ptr<Backend>();
  std::vector<int> members;
  for (std::size_t r = 0; r < requests.size(); ++r)
    if (requests[r].color == color) members.push_back(static_cast<int>(r));
  std::ranges::stable_sort(members, {}, [&](int r) { return requests[static_cast<std::size_t>(r)].key; });
  std::vector<int> ranks;
  bool one_host = true;
  for (const int r : members) {
    ranks.push_back(ranks_[static_cast<std::size_t>(r)]);
    one_host = one_host && placement_.hosts[static_cast<std::size_t>(r)] == placement_.host();
  }
  if (one_host && world_->provider().moves_host_memory()) return local;  // shared memory is all it needs
  std::unique_ptr<shm::ShmBackend> own(static_cast<shm::ShmBackend*>(local.release()));
  std::unique_ptr<HierarchicalBackend> group(new HierarchicalBackend(world_, std::move(ranks), number, std::move(own)));
  XOE_TRY(group->connect());
  return group;
}

Result<std::vector<std::byte*>> HierarchicalBackend::map_peers(const SharedBuffer&, const OpOptions&) {
  return failure(Code::kUnsupported,
                 "map_peers: the {} ranks of this group are on {} hosts, and share no memory; split() them by host",
                 ranks_.size(), placement_.host_count());
}

Result<std::byte*> HierarchicalBackend::host_memory(std::size_t bytes) { return local_->host_memory(bytes); }

Result<std::unique_ptr<HostLink>> HierarchicalBackend::host_link() {
  const int exchange = ++exchanges_;
  if (placement_.local_rank() != 0) return std::unique_ptr<HostLink>();
  std::vector<int> leaders;
  for (const auto& ranks : placement_.ranks_of) leaders.push_back(ranks_[static_cast<std::size_t>(ranks.front())]);
  return make_mesh_link(world_, leaders, placement_.host(), key(fmt::format("link/{}", exchange)));
}

}  // namespace xoe::hierarchical
