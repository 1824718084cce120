#include "engine/execute/gpu/gpu_communicator.h"

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"

namespace xoe::engine {
namespace {

// NCCL notices a lost peer at once, but cannot name it; the ranks' own failure detection does within a second.
constexpr std::chrono::milliseconds kCausePatience(1500);
constexpr std::chrono::seconds kJoinPatience(60);

}  // namespace

// A started collective.
class GpuCommunicator::Work final : public Handle::Work {
 public:
  explicit Work(GpuCollective job) : job_(std::move(job)) {
    for (const auto& mark : job_.after) marks_.push_back(mark.get());
    Collective& c = job_.collective;
    c.device = true;
    c.options.name = job_.name;
    c.segments = job_.segments;
    c.send_counts = job_.send_counts;
    c.recv_counts = job_.recv_counts;
    c.after = marks_;
    c.by_marks = true;
  }

  const Collective& collective() const noexcept { return job_.collective; }

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
    if (unnamed && net::Clock::now() < *finished_ + kCausePatience) return false;
    return failure(status_.error());
  }
  Status wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished_.has_value(); });
    return status_;
  }

 private:
  GpuCollective job_;
  std::vector<const void*> marks_;
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
  Phase phase = Phase::kJoining;
  std::string given;
  std::vector<std::string> all;
  Status joined;
  std::unique_ptr<net::Net> net;
  std::deque<std::shared_ptr<Work>> queue;
  bool stopping = false;
  std::thread thread;

  // REQUIRES: mutex, since stop() removes `wake`.
  void tell() {
    changed.notify_all();
    if (wake) wake();
  }

  Result<std::vector<std::string>> exchange(std::string mine) {
    std::unique_lock lock(mutex);
    given = std::move(mine);
    phase = Phase::kAsks;
    tell();
    changed.wait(lock, [this] { return stopping || phase == Phase::kJoining; });
    if (stopping) return failure(Code::kUnavailable, "given up");
    return std::move(all);
  }

  Result<std::unique_ptr<net::Net>> connect() {
    XOE_ASSIGN(net::Provider* const provider, plugin->provider());
    provider->take_thread();
    const auto exchange_with_all = [this](std::string mine) { return exchange(std::move(mine)); };
    auto made = provider->connect(members, exchange_with_all, net::Clock::now() + kJoinPatience);
    if (made) return made;
    return failure(made.error().code(), "{} (with XOE_GPU=host tensors of GPUs go through host memory)",
                   made.error().message());
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
      Status status = net->run(next->collective(), net::Clock::now() + plugin->timeout());
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

GpuCommunicator::GpuCommunicator(std::shared_ptr<GpuPlugin> plugin, net::Members members, std::function<void()> wake)
    : state_(std::make_shared<State>()) {
  state_->plugin = std::move(plugin);
  state_->members = std::move(members);
  state_->wake = std::move(wake);
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

Result<Handle> GpuCommunicator::start(GpuCollective job) {
  auto work = std::make_shared<Work>(std::move(job));
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
