#include "core/engine/execute/gpu/gpu_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/error.h"

namespace xoe::engine {
namespace {

// NCCL notices a lost peer at once, but cannot name it; the ranks' own failure detection does within a second.
constexpr std::chrono::milliseconds kCauseTimeout(1500);
constexpr std::chrono::seconds kJoinTimeout(60);

}  // namespace

Collective GpuCollective::view() const {
  Collective whole = collective;
  whole.device = true;
  whole.options.name = name;
  whole.segments = segments;
  whole.send_counts = send_counts;
  whole.recv_counts = recv_counts;
  return whole;
}

// A started collective.
class GpuCommunicator::Work final : public Handle::Work, public LaunchListener {
 public:
  // wake: called when it has been launched.
  Work(GpuCollective job, std::function<void()> wake) : job_(std::move(job)), wake_(std::move(wake)) {
    for (const auto& mark : job_.after) marks_.push_back(mark.get());
    collective_ = job_.view();
    collective_.after = marks_;
    collective_.by_marks = true;
    if (job_.on_launch) collective_.listener = this;
  }

  void launched(std::shared_ptr<const void> event) noexcept override {
    job_.on_launch(event);
    wake_();
  }

  const Collective& collective() const noexcept { return collective_; }

  void finish(Status status) {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    finished_ = net::Clock::now();
    changed_.notify_all();
  }

  Result<bool> test() override {
    const std::lock_guard lock(mutex_);
    if (!finished_) return false;
    if (status_) return true;
    const bool unnamed = status_.error().code() == Code::kPeerLost || status_.error().code() == Code::kUnavailable;
    if (unnamed && net::Clock::now() < *finished_ + kCauseTimeout) return false;
    return failure(status_.error());
  }
  Status wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished_.has_value(); });
    return status_;
  }

 private:
  const GpuCollective job_;
  const std::function<void()> wake_;
  std::vector<const void*> marks_;
  Collective collective_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Status status_;
  std::optional<net::Clock::time_point> finished_;
};

struct GpuCommunicator::State {
  enum class Phase { kJoining, kAsks, kJoined };

  std::shared_ptr<GpuPlugin> plugin;
  net::Members members;
  pid_t owner = ::getpid();

  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> wake;
  std::function<void(std::string_view)> say;
  Phase phase = Phase::kJoining;
  std::string given;
  std::vector<std::string> all;
  Status joined;
  GpuChoice choice;  // set before kJoined
  std::unique_ptr<net::Net> net;
  std::deque<std::shared_ptr<Work>> queue;
  bool stopping = false;
  std::thread thread;

  // REQUIRES: mutex, since stop() removes `wake`.
  void tell() {
    changed.notify_all();
    if (wake) wake();
  }

  Result<std::vector<std::string>> exchange(const std::string& mine) {
    std::unique_lock lock(mutex);
    given = mine;
    phase = Phase::kAsks;
    tell();
    changed.wait(lock, [this] { return stopping || phase == Phase::kJoining; });
    if (stopping) return failure(Code::kUnavailable, "given up");
    return std::move(all);
  }

  Result<RankGpu> own_facts(net::Provider& provider) const {
    XOE_ASSIGN(RankGpu mine, provider.rank_gpu());
    mine.requested = plugin->settings().requested;
    mine.encrypts = plugin->settings().encrypts;
    mine.rank = members.ranks[static_cast<std::size_t>(members.self)];
    mine.staging_bytes = plugin->settings().staging_bytes;
    return mine;
  }

  // Connects NCCL, if all ranks can. No net: they stage.
  Result<std::unique_ptr<net::Net>> connect() {
    XOE_ASSIGN(net::Provider* const provider, plugin->provider());
    provider->take_thread();
    XOE_ASSIGN(const RankGpu mine, own_facts(*provider));
    XOE_ASSIGN(const auto texts, exchange(mine.encode()));
    std::vector<RankGpu> ranks;
    for (const std::string& text : texts) {
      XOE_ASSIGN(RankGpu facts, RankGpu::decode(text));
      ranks.push_back(std::move(facts));
    }
    XOE_ASSIGN(choice, choose_gpu_transport(ranks));
    if (choice.transport == GpuTransport::kStaged) return nullptr;
    return connect_nccl(*provider, ranks);
  }

  // NCCL may refuse on some ranks only: then all stage.
  Result<std::unique_ptr<net::Net>> connect_nccl(net::Provider& provider, const std::vector<RankGpu>& ranks) {
    const auto exchange_with_all = [this](const std::string& mine) { return exchange(mine); };
    auto made = provider.connect(members, exchange_with_all, net::Clock::now() + kJoinTimeout);
    XOE_ASSIGN(const auto outcomes, exchange(made ? "" : made.error().message()));
    const auto failed = std::ranges::find_if(outcomes, [](const std::string& text) { return !text.empty(); });
    if (failed == outcomes.end()) return made;
    if (made) (*made)->abort();
    const std::string& who = ranks[static_cast<std::size_t>(failed - outcomes.begin())].name();
    if (std::ranges::any_of(ranks, [](const RankGpu& rank) { return rank.requested == "nccl"; }))
      return failure(made ? Code::kUnavailable : made.error().code(), "{}: {} (XOE_GPU=nccl)", who, *failed);
    choice.transport = GpuTransport::kStaged;
    choice.why = fmt::format("{}: {}", who, *failed);
    return nullptr;
  }

  void work() {
    auto made = connect();
    std::unique_lock lock(mutex);
    if (made)
      net = std::move(*made);
    else
      joined = failure(made.error());
    phase = Phase::kJoined;
    tell();
    while (net != nullptr) {
      changed.wait(lock, [this] { return stopping || !queue.empty(); });
      if (stopping) break;
      const auto next = queue.front();
      lock.unlock();
      Status status = net->run(next->collective(), net::Clock::now() + plugin->settings().timeout);
      next->finish(std::move(status));
      lock.lock();
      queue.pop_front();
      tell();
    }
  }
};

// The next exchange, or the end of connecting.
class GpuCommunicator::Step final : public Handle::Work {
 public:
  explicit Step(std::shared_ptr<State> state) : state_(std::move(state)) {}

  Result<bool> test() override {
    const std::lock_guard lock(state_->mutex);
    return answer();
  }
  Status wait() override {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->phase != State::Phase::kJoining; });
    const auto answered = answer();
    return answered ? Status() : Status(failure(answered.error()));
  }

 private:
  Result<bool> answer() const {
    if (state_->phase == State::Phase::kJoined && !state_->joined) return failure(state_->joined.error());
    return state_->phase != State::Phase::kJoining;
  }

  std::shared_ptr<State> state_;
};

GpuCommunicator::GpuCommunicator(std::shared_ptr<GpuPlugin> plugin, net::Members members, std::function<void()> wake,
                                 std::function<void(std::string_view)> say)
    : state_(std::make_shared<State>()), copies_(plugin, wake) {
  state_->plugin = std::move(plugin);
  state_->members = std::move(members);
  state_->wake = std::move(wake);
  state_->say = std::move(say);
}

Result<Handle> GpuCommunicator::next_step() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->thread.joinable() && !state_->stopping) {
    try {
      state_->thread = std::thread([state = state_] { state->work(); });
    } catch (const std::system_error&) {
      return failure(Code::kResourceExhausted, "cannot start a thread (limit of processes?)");
    }
  }
  return Handle(std::make_shared<Step>(state_));
}

bool GpuCommunicator::connected() const {
  const std::lock_guard lock(state_->mutex);
  return state_->phase == State::Phase::kJoined;
}

std::string GpuCommunicator::given() const {
  const std::lock_guard lock(state_->mutex);
  return state_->given;
}

void GpuCommunicator::answer(std::vector<std::string> all) {
  const std::lock_guard lock(state_->mutex);
  state_->all = std::move(all);
  state_->phase = State::Phase::kJoining;
  state_->changed.notify_all();
}

const GpuChoice& GpuCommunicator::choice() const {
  const std::lock_guard lock(state_->mutex);
  return state_->choice;
}

void GpuCommunicator::warn_if_staged() const {
  const std::size_t size = state_->members.ranks.size();
  if (choice().transport != GpuTransport::kStaged || state_->members.self != 0 || size < 2) return;
  if (state_->plugin->settings().requested != "staged")
    state_->say(fmt::format("GPU tensors of {} ranks pass through pinned host memory: {}", size, choice().why));
}

bool GpuCommunicator::takes(const Collective& collective) const {
  const std::lock_guard lock(state_->mutex);
  return state_->net != nullptr && state_->net->supports(collective);
}

Result<Handle> GpuCommunicator::start(GpuCollective job) {
  const auto wake = [state = state_.get()] {  // in its thread
    const std::lock_guard lock(state->mutex);
    state->tell();
  };
  auto work = std::make_shared<Work>(std::move(job), wake);
  const std::lock_guard lock(state_->mutex);
  if (state_->stopping) return failure(Code::kUnavailable, "given up");
  state_->queue.push_back(work);
  state_->changed.notify_all();
  return Handle(std::move(work));
}

GpuCommunicator::~GpuCommunicator() {
  stop(/*failed=*/false);
  if (state_->owner != ::getpid()) return;  // it is not the forked child's
  std::unique_ptr<net::Net> leaving;
  const std::lock_guard lock(state_->mutex);
  leaving = std::move(state_->net);  // destroyed after the lock is released
}

void GpuCommunicator::stop(bool failed) noexcept {
  copies_.stop();
  // A forked child has no such thread, and may use neither NCCL nor the GPU.
  if (state_->owner != ::getpid()) return static_cast<void>(new std::shared_ptr<State>(state_));
  bool joins = false;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->thread.joinable() || state_->stopping) return;
    state_->stopping = true;
    state_->wake = {};
    state_->changed.notify_all();
    if (state_->net != nullptr && (failed || !state_->queue.empty())) state_->net->abort();
    joins = state_->phase == State::Phase::kJoined;
  }
  // A thread that is still connecting uses no buffers, and gives up at its deadline.
  if (!joins) return state_->thread.detach();
  state_->thread.join();
}

}  // namespace xoe::engine
