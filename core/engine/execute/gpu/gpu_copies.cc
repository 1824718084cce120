#include "core/engine/execute/gpu/gpu_copies.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.h"

namespace xoe::engine {
namespace {

using net::Clock;

// CUDA does not call back when the GPU has failed: then a look at the copies tells.
constexpr std::chrono::milliseconds kLook(100);
// How long copies that were started may go on after stop().
constexpr std::chrono::seconds kDrainTimeout(2);

}  // namespace

class GpuCopies::Transfer final : public Handle::Work {
 public:
  explicit Transfer(GpuTransfer transfer) : transfer_(std::move(transfer)) {}

  const GpuTransfer& operator*() const noexcept { return transfer_; }

  void finish(Status status) {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    changed_.notify_all();
  }

  Result<bool> test() override {
    const std::lock_guard lock(mutex_);
    if (!status_) return false;
    if (!*status_) return failure(status_->error());
    return true;
  }
  Status wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return status_.has_value(); });
    return *status_;
  }

 private:
  const GpuTransfer transfer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Status> status_;
};

struct GpuCopies::State {
  using Transfers = std::vector<std::shared_ptr<Transfer>>;

  std::shared_ptr<GpuPlugin> plugin;
  pid_t owner = ::getpid();

  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> wake;
  std::size_t slot_bytes = 0;
  std::optional<Status> prepared;
  std::byte* memory = nullptr;
  Transfers queue;
  bool rang = false;  // copies may be done
  bool stopping = false;
  std::thread thread;

  // REQUIRES: mutex, since stop() removes `wake`.
  void tell() {
    changed.notify_all();
    if (wake) wake();
  }

  void ring() {
    const std::lock_guard lock(mutex);
    rang = true;
    changed.notify_all();
  }

  static Result<std::unique_ptr<net::GpuStaging>> pin(const std::shared_ptr<State>& state) {
    XOE_ASSIGN(net::Provider* const provider, state->plugin->provider());
    provider->take_thread();
    return provider->make_staging(kSlots, state->slot_bytes, [state] { state->ring(); });
  }

  // Finishes the transfers that are done; true: there were some.
  static bool finish_done(net::GpuStaging& staging, Transfers& running) {
    const auto is_done = [&](const std::shared_ptr<Transfer>& transfer) {
      const auto done = staging.done((**transfer).direction, (**transfer).slot);
      if (done && !*done) return false;
      transfer->finish(done ? Status() : Status(failure(done.error())));
      return true;
    };
    return std::erase_if(running, is_done) != 0;
  }

  static bool start_all(net::GpuStaging& staging, const Transfers& fresh, Transfers& running) {
    bool failed = false;
    for (const auto& transfer : fresh) {
      const GpuTransfer& own = **transfer;
      std::vector<const void*> after;
      for (const auto& mark : own.after) after.push_back(mark.get());
      const Status started = staging.start(own.direction, own.slot, own.copies, after);
      if (started)
        running.push_back(transfer);
      else
        transfer->finish(started);
      failed |= !started;
    }
    return failed;
  }

  static void work(const std::shared_ptr<State>& state) {
    auto pinned = pin(state);
    const std::unique_ptr<net::GpuStaging> staging = pinned ? std::move(*pinned) : nullptr;
    std::unique_lock lock(state->mutex);
    state->prepared = pinned ? Status() : Status(failure(pinned.error()));
    if (staging) state->memory = staging->memory();
    state->tell();
    if (!staging) return;
    Transfers running;
    const auto moved = [&] { return state->stopping || state->rang || !state->queue.empty(); };
    while (!state->stopping) {
      if (running.empty())
        state->changed.wait(lock, moved);
      else
        state->changed.wait_for(lock, kLook, moved);
      state->rang = false;
      const Transfers fresh = std::exchange(state->queue, {});
      lock.unlock();
      const bool failed = start_all(*staging, fresh, running);
      const bool finished = finish_done(*staging, running);
      lock.lock();
      if (failed || finished) state->tell();
    }
    const auto end = Clock::now() + kDrainTimeout;
    while (!running.empty() && Clock::now() < end) {
      state->changed.wait_for(lock, kLook, [&] { return std::exchange(state->rang, false); });
      lock.unlock();
      finish_done(*staging, running);
      lock.lock();
    }
  }
};

class GpuCopies::Prepared final : public Handle::Work {
 public:
  explicit Prepared(std::shared_ptr<State> state) : state_(std::move(state)) {}

  Result<bool> test() override {
    const std::lock_guard lock(state_->mutex);
    if (!state_->prepared) return false;
    if (!*state_->prepared) return failure(state_->prepared->error());
    return true;
  }
  Status wait() override {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->prepared.has_value(); });
    return *state_->prepared;
  }

 private:
  std::shared_ptr<State> state_;
};

GpuCopies::GpuCopies(std::shared_ptr<GpuPlugin> plugin, std::function<void()> wake)
    : state_(std::make_shared<State>()) {
  state_->plugin = std::move(plugin);
  state_->wake = std::move(wake);
}

Result<Handle> GpuCopies::prepare(std::size_t slot_bytes) {
  const std::lock_guard lock(state_->mutex);
  if (state_->stopping) return failure(Code::kUnavailable, "given up");
  if (!state_->thread.joinable()) {
    state_->slot_bytes = slot_bytes;
    try {
      state_->thread = std::thread([state = state_] { State::work(state); });
    } catch (const std::system_error&) {
      return failure(Code::kResourceExhausted, "cannot start a thread (limit of processes?)");
    }
  }
  return Handle(std::make_shared<Prepared>(state_));
}

std::byte* GpuCopies::memory(std::size_t slot) const {
  const std::lock_guard lock(state_->mutex);
  return state_->memory + slot * state_->slot_bytes;
}

std::optional<std::size_t> GpuCopies::take_slot() noexcept {
  const auto free = std::ranges::find(taken_, false);
  if (free == taken_.end()) return std::nullopt;
  *free = true;
  return static_cast<std::size_t>(free - taken_.begin());
}

Result<Handle> GpuCopies::start(GpuTransfer transfer) {
  auto work = std::make_shared<Transfer>(std::move(transfer));
  const std::lock_guard lock(state_->mutex);
  if (state_->stopping) return failure(Code::kUnavailable, "given up");
  state_->queue.push_back(work);
  state_->changed.notify_all();
  return Handle(std::move(work));
}

void GpuCopies::stop() noexcept {
  // A forked child has no such thread, and may not use the GPU.
  if (state_->owner != ::getpid()) return static_cast<void>(new std::shared_ptr<State>(state_));
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->wake = {};
    state_->changed.notify_all();
  }
  if (state_->thread.joinable()) state_->thread.join();
}

}  // namespace xoe::engine
