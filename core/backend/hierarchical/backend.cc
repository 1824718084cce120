#include "core/backend/hierarchical/backend.h"

#include <algorithm>
#include <numeric>

#include "core/backend/exchange.h"
#include "core/backend/hierarchical/algorithms.h"
#include "core/backend/hierarchical/leader_channel.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/text.h"

namespace xoe::hierarchical {
namespace {

// How long a rank that sees a connection break waits for another rank to report the cause.
constexpr std::chrono::milliseconds kCauseTimeout(1500);

struct SplitRequest {
  std::int64_t color;
  std::int64_t key;
};

}  // namespace

HierarchicalBackend::HierarchicalBackend(std::shared_ptr<Context> context, std::vector<int> ranks, std::uint64_t number,
                                         std::unique_ptr<shm::ShmBackend> local)
    : context_(std::move(context)),
      ranks_(std::move(ranks)),
      number_(number),
      local_(std::move(local)),
      operations_([this](const Collective& collective) { return execute(collective); }, [this] { wake(); }) {
  std::vector<int> hosts;
  for (const int rank : ranks_) hosts.push_back(context_->placement().hosts[index(rank)]);
  const auto own = std::ranges::find(ranks_, context_->rank()) - ranks_.begin();
  placement_ = make_placement(hosts, static_cast<int>(own));
  topology_ = placement_.topology();
}

Result<std::unique_ptr<Backend>> HierarchicalBackend::make(std::shared_ptr<Context> context) {
  std::vector<int> ranks(context->placement().hosts.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  auto local = context->take_host_backend();
  std::unique_ptr<HierarchicalBackend> group(
      new HierarchicalBackend(std::move(context), std::move(ranks), 1, std::move(local)));
  XOE_TRY(group->connect());
  return group;
}

Status HierarchicalBackend::connect() {
  const auto connect = [this](const std::vector<int>& ranks,
                              std::string_view what) -> Result<std::unique_ptr<net::Net>> {
    net::Members members{.ranks = {}, .secret = context_->options().secret, .check = [context = context_.get()] {
                           return context->check_version();
                         }};
    for (const int rank : ranks) {
      if (rank == placement_.rank) members.self = static_cast<int>(members.ranks.size());
      members.ranks.push_back(ranks_[index(rank)]);
    }
    int round = 0;
    const auto exchange = [&](const std::string& mine) {
      return context_->exchange(key(fmt::format("{}/{}", what, round++)), members.ranks, mine);
    };
    return context_->provider().connect(members, exchange, net::Clock::now() + context_->options().start_timeout);
  };
  rails_ = std::make_unique<Rails>(placement_, *local_, context_->options().routing, connect);
  XOE_TRY(rails_->connect());
  name_ = rails_->routing().flat ? std::string(rails_->net_name()) : "hierarchical";
  subscription_ = context_->failures().subscribe([this](const FailureEvent& event) { on_failure(event); });
  const WaitPolicy& waits = context_->options().waits;
  WaitLimits limits = waits.limits;
  if (!waits.warn) limits.warning = {};
  watchdog_ = std::make_unique<Watchdog>(
      limits, [this](const Watchdog::Stall& stall) { on_stall(stall); },
      [this](std::uint64_t number) { return used_by_late(number); });
  return {};
}

HierarchicalBackend::~HierarchicalBackend() {
  if (!context_->in_its_process()) {  // a forked child: its parent is the rank, and has the threads
    operations_.detach();
    [[maybe_unused]] auto* const thread_of_the_rank = watchdog_.release();
    [[maybe_unused]] auto* const leaked = rails_.release();
    return;
  }
  if (watchdog_ != nullptr) watchdog_->stop();  // its thread uses it, and this
  if (subscription_ >= 0) context_->failures().unsubscribe(subscription_);
  operations_.stop([this] {
    end(Error(Code::kPeerLost, who(placement_.rank) + " destroyed its communicator while operations were pending"));
  });
  if (all_met_) context_->forget(key(""));
  context_->failures().append({.kind = FailureEvent::Kind::kRankLeft,
                               .rank = context_->rank(),
                               .group = number_,
                               .done = done_,
                               .members = static_cast<std::uint32_t>(ranks_.size())});
}

Status HierarchicalBackend::supports(const Collective& collective) const {
  return context_->provider().moves_host_memory() ? check_host_memory(collective, name_) : rails_->supports(collective);
}

Status HierarchicalBackend::execute(const Collective& collective) {
  const std::uint64_t number = done_.load(std::memory_order_relaxed) + 1;
  const auto timeout = collective.options.timeout.value_or(context_->timeout());
  const Operation op{.collective = collective, .number = number, .deadline = net::Clock::now() + timeout};
  const auto failed = [&](const Error& cause) {
    return cause.code() == Code::kPeerLost ? failure(cause.code(), "{}: {}", op.title(), cause.message())
                                           : failure(cause);
  };
  begun_.store(number, std::memory_order_release);
  context_->note_begun(number_, number);
  if (const auto left = left_before(number)) fail(*left);
  if (const auto known = cause()) return failed(*known);
  watchdog_->begin(collective, number);
  const Status status = hierarchical::run(*rails_, op);
  watchdog_->end();
  if (!status) return failed(first_cause(status.error()));
  done_.store(number, std::memory_order_release);
  if (collective.kind == CollectiveKind::kBarrier ||
      (collective.kind == CollectiveKind::kAllreduce && collective.in_count > 0))
    all_met();
  return {};
}

// The cause of a failure that this rank saw itself: the one that another rank reports in time, or else its own, which
// it reports to the others.
Error HierarchicalBackend::first_cause(const Error& seen) {
  if (seen.code() == Code::kPeerLost || seen.code() == Code::kUnavailable) {
    std::unique_lock lock(cause_mutex_);
    cause_known_.wait_for(lock, kCauseTimeout, [this] { return cause_.has_value(); });
  }
  end(seen);
  return *cause();
}

// --- waiting ---

std::optional<ProcessActivity> HierarchicalBackend::activity(int rank) const {
  const int rank_of_job = ranks_[index(rank)];
  const auto state = context_->state(rank_of_job);
  if (state) return state->activity;
  return context_->asks_about(rank_of_job) ? std::optional(ProcessActivity()) : std::nullopt;
}

// Tells what this host knows of the group's collective `number`, and asks the other hosts. Only the job's first rank on
// each host can; the others are not told.
HierarchicalBackend::Late HierarchicalBackend::look(std::uint64_t number) const {
  Late late;
  for (int rank = 0; rank < topology_.size; ++rank) {
    const auto state = context_->state(ranks_[index(rank)]);
    if (!state)
      late.others_unknown = true;
    else if (state->group != number_ || state->begun < number || state->activity.stopped)
      late.ranks.push_back(rank);
  }
  return late;
}

// Waits for the answers of the other hosts. Their answers of before count where they do not give any.
HierarchicalBackend::Late HierarchicalBackend::late_for(std::uint64_t number) const {
  constexpr std::chrono::seconds kAnswer(2);  // hosts that are busy answer late, one that is gone never does
  constexpr std::chrono::milliseconds kPoll(50);
  const auto began = Clock::now();
  (void)look(number);
  const auto all_answered = [&] {
    return std::ranges::all_of(ranks_, [&](int rank) { return context_->has_answered(rank, began); });
  };
  while (!all_answered() && Clock::now() - began < kAnswer && done_.load(std::memory_order_acquire) < number &&
         !cause() && watchdog_->pause(kPoll)) {
  }
  return look(number);
}

CpuUse HierarchicalBackend::used_by_late(std::uint64_t number) const {
  CpuUse used;
  for (const int rank : late_for(number).ranks) used.add(activity(rank));
  return used;
}

// One rank of each host reports: the first that has come. Of a host's own ranks those tell that wait in its memory.
bool HierarchicalBackend::reports(const Late& late) const {
  const auto is_late = [&](int rank) { return std::ranges::count(late.ranks, rank) != 0; };
  const auto& local = placement_.local_ranks();
  const auto first = std::ranges::find_if_not(local, is_late);
  if (first == local.end() || *first != placement_.rank) return false;
  return late.others_unknown || std::ranges::any_of(late.ranks, [&](int rank) {
           return rails_->routing().flat || std::ranges::count(local, rank) == 0;
         });
}

std::string HierarchicalBackend::describe_late(int rank) const {
  const RankState state = context_->state(ranks_[index(rank)]).value_or(RankState());
  const std::string where = state.group == number_ ? fmt::format("at operation #{}", state.begun)
                                                   : std::string("not in an operation of this group");
  return fmt::format("{} ({}{})", who(rank), where, state.activity.stopped ? "; its process is stopped" : "");
}

// Called by the watchdog's thread.
void HierarchicalBackend::on_stall(const Watchdog::Stall& stall) {
  const Late late = late_for(stall.number);
  if (done_.load(std::memory_order_acquire) >= stall.number || cause() || !reports(late)) return;
  std::string whom = late.others_unknown ? "the other hosts" : "";
  for (const int rank : late.ranks) whom += (whom.empty() ? "" : ", ") + describe_late(rank);
  const std::string text =
      fmt::format("{}: {} waited {} for {}", stall.title, who(placement_.rank), human_seconds(stall.waited), whom);
  if (stall.action == StallTimer::Action::kWarning) return context_->options().waits.warn(text);
  if (!late.others_unknown) end(Error(Code::kTimeout, text));
}

// --- failing ---

std::optional<Error> HierarchicalBackend::cause() const {
  const std::lock_guard lock(cause_mutex_);
  return cause_;
}

// Ends the group on this rank; false if it had failed before.
bool HierarchicalBackend::fail(const Error& cause) {
  {
    const std::lock_guard lock(cause_mutex_);
    if (cause_) return false;
    cause_ = cause;
  }
  cause_known_.notify_all();
  rails_->abort();
  local_->abort(cause);
  wake();
  return true;
}

// Ends the group on all ranks.
void HierarchicalBackend::end(const Error& cause) {
  if (!fail(cause)) return;
  FailureEvent event{.kind = FailureEvent::Kind::kGroupFailed, .rank = context_->rank(), .group = number_};
  event.set_cause(cause.code(), cause.message());
  context_->failures().append(event);
}

Status HierarchicalBackend::progress() {
  if (const auto known = cause()) return failure(*known);
  return {};
}

// Called by the failure listener's thread.
void HierarchicalBackend::on_failure(const FailureEvent& event) {
  const auto rank_here = [&](int rank) { return std::ranges::find(ranks_, rank) - ranks_.begin(); };
  const auto takes_part = [&](int rank) {
    const std::lock_guard lock(cause_mutex_);
    return std::ranges::count(ranks_, rank) != 0 &&
           std::ranges::count(departed_, rank_here(rank), &Departure::rank) == 0;
  };
  switch (event.kind) {
    case FailureEvent::Kind::kRankLost:
      if (takes_part(event.rank)) fail(after_departures(event.cause()));
      return;
    case FailureEvent::Kind::kHostLost:
      if (std::ranges::any_of(context_->placement().ranks_of[index(event.rank)], takes_part))
        fail(after_departures(event.cause()));
      return;
    case FailureEvent::Kind::kGroupFailed:
      if (event.group == number_) fail(event.cause());
      return;
    case FailureEvent::Kind::kRankLeft: break;
  }
  if (event.group != number_ || !takes_part(event.rank)) return;
  {
    const std::lock_guard lock(cause_mutex_);
    departed_.push_back({static_cast<int>(rank_here(event.rank)), event.done});
  }
  const auto begun = begun_.load(std::memory_order_acquire);
  if (begun > done_.load(std::memory_order_acquire))
    if (const auto left = left_before(begun)) fail(*left);
  wake();
}

// The cause, if a rank left the group before it completed collective `number`.
std::optional<Error> HierarchicalBackend::left_before(std::uint64_t number) const {
  const std::lock_guard lock(cause_mutex_);
  for (const Departure& departure : departed_)
    if (departure.done < number)
      return Error(Code::kPeerLost, who(departure.rank) + " has left the group (its communicator was destroyed)");
  return std::nullopt;
}

// A loss with the ranks that had left in order before: one of those may be why the other ended.
Error HierarchicalBackend::after_departures(const Error& loss) const {
  constexpr std::size_t kNamed = 4;
  std::vector<std::string> names;
  for (const int rank : departed()) names.push_back(who(rank));
  if (names.empty()) return loss;
  const std::size_t named = std::min(names.size(), kNamed);
  const std::string more = names.size() > named ? fmt::format(" and {} more", names.size() - named) : "";
  return {loss.code(), fmt::format("{}; before that, {}{} had left the group", loss.message(),
                                   fmt::join(std::span(names).first(named), ", "), more)};
}

std::vector<int> HierarchicalBackend::departed() const {
  const std::lock_guard lock(cause_mutex_);
  std::vector<int> ranks;
  for (const Departure& departure : departed_) ranks.push_back(departure.rank);
  return ranks;
}

// --- groups ---

std::string HierarchicalBackend::key(std::string_view what) {
  return fmt::format("{}{:x}/{}", context_->options().keys, number_, what);
}

Result<std::unique_ptr<Backend>> HierarchicalBackend::split(int color, int key) {
  XOE_ASSIGN(const auto requests, exchange(*this, topology_, SplitRequest{color, key}, {.name = "split"}));
  XOE_ASSIGN(auto local, local_->split(color, key));
  const std::uint64_t number = mix(mix(number_ + ++splits_) + static_cast<std::uint64_t>(color) + 1);
  if (color < 0) return std::unique_ptr<Backend>();
  std::vector<int> ranks;
  bool one_host = true;
  for (const int r : split_members(requests, color)) {
    ranks.push_back(ranks_[index(r)]);
    one_host = one_host && placement_.hosts[index(r)] == placement_.host();
  }
  if (one_host && context_->provider().moves_host_memory()) return local;  // shared memory is all it needs
  std::unique_ptr<shm::ShmBackend> own(static_cast<shm::ShmBackend*>(local.release()));
  std::unique_ptr<HierarchicalBackend> group(
      new HierarchicalBackend(context_, std::move(ranks), number, std::move(own)));
  if (const Status connected = group->connect(); !connected) return failure(context_->cause_of(connected.error()));
  return group;
}

Result<std::vector<std::byte*>> HierarchicalBackend::map_peers(const SharedBuffer&, const OpOptions&) {
  return failure(Code::kUnsupported,
                 "map_peers: the {} ranks of this group are on {} hosts, and share no memory; split() them by host",
                 ranks_.size(), placement_.host_count());
}

Result<std::unique_ptr<LeaderChannel>> HierarchicalBackend::leader_channel() {
  const int channel = ++channels_;
  if (placement_.local_rank() != 0) return std::unique_ptr<LeaderChannel>();
  std::vector<int> leaders;
  for (const int leader : placement_.leaders()) leaders.push_back(ranks_[index(leader)]);
  auto made = make_leader_channel(context_, leaders, placement_.host(), key(fmt::format("leaders/{}", channel)));
  if (!made) return failure(context_->cause_of(made.error()));
  return made;
}

}  // namespace xoe::hierarchical
