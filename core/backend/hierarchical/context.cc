#include "core/backend/hierarchical/context.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/backend/shm/wakeup_channel.h"
#include "core/base/bytes.h"
#include "core/base/error.h"

namespace xoe::hierarchical {
namespace {

FailureEvent lost(FailureEvent::Kind kind, int rank, std::string_view text) {
  FailureEvent event{.kind = kind, .rank = rank};
  event.set_cause(Code::kPeerLost, text);
  return event;
}

constexpr std::string_view kAskActivity = "activity?";
constexpr std::chrono::milliseconds kAskAgain(100);
// While an answer is awaited: a question costs the host a look at all its processes.
constexpr std::chrono::seconds kAskOnceMore(1);
constexpr std::string_view kAnswerActivity = "activity:";

// The log is followed by the set of the ranks that have left, and the ranks' progress.
std::size_t log_bytes(int ranks) { return (FailureLog::bytes(ranks) + 63) / 64 * 64; }

}  // namespace

// The rank itself alone writes it. The two numbers may be of different collectives for a moment.
struct alignas(64) Context::Progress {
  std::atomic<std::uint64_t> group;
  std::atomic<std::uint64_t> begun;
};

Result<std::shared_ptr<Context>> Context::join(std::vector<RankInfo> ranks, int rank,
                                               std::shared_ptr<bootstrap::OwnKeys> store,
                                               std::unique_ptr<net::Provider> provider, ContextOptions options) {
  std::shared_ptr<Context> context(new Context());
  context->owner_ = ::getpid();
  context->options_ = std::move(options);
  context->ranks_ = std::move(ranks);
  context->store_ = std::move(store);
  context->provider_ = std::move(provider);
  std::vector<int> hosts;
  for (const RankInfo& info : context->ranks_) {
    const auto first = std::ranges::find(context->ranks_, info.host, &RankInfo::host);
    hosts.push_back(static_cast<int>(first - context->ranks_.begin()));
  }
  context->placement_ = make_placement(hosts, rank);
  const auto& at = context->options_;
  XOE_ASSIGN(context->memory_, shm::Context::join(context->placement_.topology(), *context->store_,
                                                  fmt::format("{}shm/{}/", at.keys, context->placement_.host()),
                                                  at.start_timeout, at.arena_bytes, context->placement_.local_ranks()));
  context->host_backend_ = std::make_unique<shm::ShmBackend>(context->memory_, at.waits);
  XOE_TRY(context->connect());
  return context;
}

Status Context::connect() {
  static_assert(sizeof(shm::RankBits) % alignof(Progress) == 0);
  const int ranks = memory_->size();
  XOE_ASSIGN(std::byte* const memory,
             host_backend_->host_memory(log_bytes(ranks) + sizeof(shm::RankBits) + sizeof(Progress) * index(ranks)));
  left_ = reinterpret_cast<shm::RankBits*>(memory + log_bytes(ranks));
  progress_ = reinterpret_cast<Progress*>(memory + log_bytes(ranks) + sizeof(shm::RankBits));
  log_.emplace(memory, placement_.local_rank(), ranks);
  FailureListener::Callback to_hosts;
  if (placement_.local_rank() == 0) {
    XOE_TRY(connect_hosts());
    to_hosts = [this](const FailureEvent& event) { forward(event); };
  }
  listener_ = std::make_unique<FailureListener>(*log_, std::move(to_hosts));
  memory_->on_ended([this](int local_rank) { on_rank_ended(local_rank); });
  for (int local_rank = 0; local_rank < memory_->size(); ++local_rank)
    if (memory_->ended(local_rank) != 0) on_rank_ended(local_rank);
  return {};
}

Result<std::unique_ptr<bootstrap::HostMesh>> Context::connect_mesh(const std::string& key,
                                                                   const std::vector<int>& leaders, int host,
                                                                   const std::vector<int>& neighbours,
                                                                   std::chrono::nanoseconds silence,
                                                                   bootstrap::MeshEvents events) {
  const auto exchanged = [&](const std::string& mine) -> Result<std::vector<std::string>> {
    std::vector<int> ranks;
    for (const int one : neighbours) ranks.push_back(leaders[index(one)]);
    XOE_ASSIGN(auto theirs, exchange(key, ranks, mine));
    std::vector<std::string> addresses(leaders.size());
    for (std::size_t i = 0; i < theirs.size(); ++i) addresses[index(neighbours[i])] = std::move(theirs[i]);
    return addresses;
  };
  return bootstrap::HostMesh::connect(host, static_cast<int>(leaders.size()), exchanged,
                                      {.connection = {.address = options_.address,
                                                      .secret = options_.secret,
                                                      .limit = options_.connect_limit,
                                                      .members = neighbours,
                                                      .name = [&](int member) { return who(leaders[index(member)]); },
                                                      .warn = options_.warn,
                                                      .check = [this] { return check_version(); }},
                                       .silence = silence},
                                      std::chrono::steady_clock::now() + options_.start_timeout, std::move(events));
}

Status Context::check_version() {
  constexpr auto kTimeout = std::chrono::seconds(1);  // with a busy launcher
  const std::string_view version = bootstrap::world_of(options_.keys);
  if (version.empty()) return {};
  // Only a refusal counts.
  const auto found = store_->get(version, kTimeout);
  return found || found.error().code() != Code::kUnavailable ? Status() : failure(found.error());
}

Error Context::cause_of(const Error& seen) {
  if (seen.code() != Code::kUnavailable || check_version()) return seen;
  return Error(Code::kPeerLost, seen.message() + ": a rank was lost, or their number changes");
}

Status Context::connect_hosts() {
  bootstrap::MeshEvents events;
  events.message = [this](bootstrap::HostMesh& mesh, int host, const std::string& message) {
    on_message(mesh, host, message);
  };
  const auto leaders = placement_.leaders();
  events.lost = [this, leaders](int host, bool silent, const std::string& why) {
    on_leader_lost(leaders[index(host)], silent, why);
  };
  std::vector<int> others(leaders.size());
  std::iota(others.begin(), others.end(), 0);
  std::erase(others, placement_.host());
  XOE_ASSIGN(mesh_, connect_mesh(options_.keys + "mesh", leaders, placement_.host(), others, options_.silence,
                                 std::move(events)));
  return {};
}

bool Context::in_its_process() const noexcept { return ::getpid() == owner_; }

void Context::wake() const noexcept { shm::wake(memory_->member(memory_->rank()).header().wakeup); }

Context::~Context() {
  if (!in_its_process()) {  // their threads are the parent's
    [[maybe_unused]] auto* const listener = listener_.release();
    [[maybe_unused]] auto* const mesh = mesh_.release();
    [[maybe_unused]] auto* const provider = provider_.release();
    return;
  }
  if (memory_ != nullptr) memory_->on_ended(nullptr);
  if (left_ != nullptr) left_->add(placement_.local_rank());
  listener_.reset();  // it forwards to the mesh
  if (log_) log_->set_gone(placement_.local_rank());
  mesh_.reset();
}

std::string Context::who(int rank) const {
  const RankInfo& info = ranks_[index(rank)];
  return fmt::format("rank {} (host {}, pid {})", rank, info.host, info.pid);
}

Result<std::vector<std::string>> Context::exchange(const std::string& key, const std::vector<int>& members,
                                                   const std::string& mine) {
  XOE_TRY(store_->set(fmt::format("{}/{}", key, rank()), mine));
  std::vector<std::string> keys;
  keys.reserve(members.size());
  for (const int member : members) keys.push_back(fmt::format("{}/{}", key, member));
  return store_->get_all(keys, options_.start_timeout);
}

// Every rank of the host sees this itself. One of them reports it: the host's leader, because it alone reaches the
// other hosts, or the next rank if the leader has ended.
void Context::on_rank_ended(int local_rank) {
  log_->set_gone(local_rank);
  if (left_->has(local_rank)) return;
  const int reporter = local_rank == 0 ? 1 : 0;
  if (placement_.local_rank() != reporter) return;
  const int rank = placement_.local_ranks()[index(local_rank)];
  log_->append(lost(FailureEvent::Kind::kRankLost, rank,
                    who(rank) + " ended without leaving the group (killed, crashed or exited early)"));
}

// Every leader sees this itself. A connection that was closed was the other leader's.
void Context::on_leader_lost(int leader, bool silent, const std::string& why) {
  const int host = placement_.hosts[index(leader)];
  const auto& ranks = placement_.ranks_of[index(host)];
  FailureEvent event =
      silent ? lost(FailureEvent::Kind::kHostLost, host,
                    fmt::format("host {} ({} {}) is gone: {}", ranks_[index(leader)].host,
                                ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "), why))
             : lost(FailureEvent::Kind::kRankLost, leader,
                    fmt::format("{} ended without leaving the group, or its host is gone: {}", who(leader), why));
  learn(event);
}

// Leaders send each other failures, questions about the activity of a host's ranks, and the answers to these.
void Context::on_message(bootstrap::HostMesh& mesh, int host, std::string_view message) {
  FailureEvent event;
  if (message.size() == sizeof event) {
    std::memcpy(&event, message.data(), sizeof event);
    return learn(event);
  }
  if (message == kAskActivity) {
    ByteWriter answer;
    answer.raw(kAnswerActivity);
    for (const int rank : placement_.local_ranks()) {
      const RankState state = local_state(rank);
      answer.fixed(static_cast<std::int64_t>(state.activity.used.count()));
      answer.fixed(static_cast<std::uint8_t>(state.activity.stopped ? 1 : 0));
      answer.fixed(state.group);
      answer.fixed(state.begun);
    }
    return mesh.send(host, answer.bytes());
  }
  if (!message.starts_with(kAnswerActivity)) return;
  ByteReader answer(message.substr(kAnswerActivity.size()));
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(reported_mutex_);
  for (const int rank : placement_.ranks_of[index(host)]) {
    const std::chrono::nanoseconds used(answer.fixed<std::int64_t>());
    const bool stopped = answer.fixed<std::uint8_t>() == 1;
    const auto group = answer.fixed<std::uint64_t>(), begun = answer.fixed<std::uint64_t>();
    if (answer.ok())
      reported_[rank] = {.activity = {.used = used, .stopped = stopped, .at = now}, .group = group, .begun = begun};
  }
}

RankState Context::local_state(int rank) const {
  const auto& local = placement_.ranks_of[index(placement_.host())];
  const Progress& progress = progress_[std::ranges::find(local, rank) - local.begin()];
  return {.activity = process_activity(ranks_[index(rank)].pid).value_or(ProcessActivity()),
          .group = progress.group.load(std::memory_order_acquire),
          .begun = progress.begun.load(std::memory_order_acquire)};
}

void Context::note_begun(std::uint64_t group, std::uint64_t number) noexcept {
  Progress& own = progress_[placement_.local_rank()];
  own.group.store(group, std::memory_order_release);
  own.begun.store(number, std::memory_order_release);
}

std::optional<RankState> Context::state(int rank) {
  const int host = placement_.hosts[index(rank)];
  if (host == placement_.host()) return local_state(rank);
  if (mesh_ == nullptr) return std::nullopt;
  const std::lock_guard lock(reported_mutex_);
  const auto now = std::chrono::steady_clock::now();
  const auto known = reported_.find(rank);
  auto& asked = asked_[host];
  const bool awaited = known == reported_.end() || known->second.activity.at < asked;
  if (now - asked >= (awaited ? std::chrono::milliseconds(kAskOnceMore) : kAskAgain)) {
    asked = now;
    mesh_->send(host, kAskActivity);
  }
  return known == reported_.end() ? std::nullopt : std::optional(known->second);
}

bool Context::has_answered(int rank, std::chrono::steady_clock::time_point time) {
  if (!asks_about(rank)) return true;
  const std::lock_guard lock(reported_mutex_);
  const auto known = reported_.find(rank);
  // state() does not ask for what is as new as this.
  return known != reported_.end() && known->second.activity.at >= time - kAskAgain;
}

// Several hosts tell of the same failure.
void Context::learn(FailureEvent event) {
  event.foreign = 1;
  const std::lock_guard lock(learned_mutex_);
  if (event.kind == FailureEvent::Kind::kRankLeft || learned_.insert(key_of(event)).second) log_->append(event);
}

// Failures that other hosts have told of are passed on too: a host that ends because of one closes its connections, and
// its peers must learn of the cause first, whichever connection they read first.
void Context::forward(const FailureEvent& event) {
  if (mesh_ == nullptr) return;
  if (event.kind == FailureEvent::Kind::kRankLeft ? event.foreign != 0 : !forwarded_.insert(key_of(event)).second)
    return;
  const std::string_view bytes(reinterpret_cast<const char*>(&event), sizeof event);
  for (int host = 0; host < placement_.host_count(); ++host)
    if (host != placement_.host()) mesh_->send(host, bytes);
}

}  // namespace xoe::hierarchical
