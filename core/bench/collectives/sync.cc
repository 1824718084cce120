#include "core/bench/collectives/sync.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <thread>

namespace xoe::bench {
namespace {

constexpr int kSpins = 2000;

void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  const timespec second{1, 0};
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, value, &second, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

Sync::Sync(const char* path, int rank, int size)
    : rank_(rank), size_(size), crowded_(static_cast<unsigned>(size) > std::thread::hardware_concurrency()) {
  if (rank < 0 || rank >= size || size > kMaxRanks) return;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* const data = mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (data != MAP_FAILED) state_ = static_cast<SharedState*>(data);
}

Sync::~Sync() {
  if (state_ != nullptr) munmap(state_, sizeof(SharedState));
}

bool Sync::barrier() noexcept {
  ++generation_;
  state_->arrived[static_cast<std::size_t>(rank_)].value.store(generation_, std::memory_order_release);
  for (int k = 0; k < size_; ++k) {
    const auto& flag = state_->arrived[static_cast<std::size_t>(k)].value;
    for (int spins = 0; static_cast<std::int32_t>(flag.load(std::memory_order_acquire) - generation_) < 0; ++spins) {
      if (spins < kSpins && !crowded_) continue;
      if (state_->failed.value.load(std::memory_order_relaxed) != 0) return false;
      if (crowded_ || spins % kSpins == 0) sched_yield();
    }
  }
  return true;
}

std::uint64_t Sync::share(std::uint64_t value) noexcept {
  if (rank_ == 0) state_->plan.samples = value;
  barrier();
  const std::uint64_t result = state_->plan.samples;
  barrier();
  return result;
}

void Sync::publish(bool quit) noexcept {
  state_->quit.value.store(quit ? 1 : 0);
  state_->command.value.fetch_add(1);
  wake_all(state_->command.value);
}

bool Sync::wait_for_plan() noexcept {
  while (state_->command.value.load() == commands_seen_) {
    sleep_while(state_->command.value, commands_seen_);
    if (getppid() == 1) return false;  // the launcher is gone
  }
  ++commands_seen_;
  return state_->quit.value.load() == 0;
}

}  // namespace xoe::bench
