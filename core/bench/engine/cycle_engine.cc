#include "core/bench/engine/cycle_engine.h"

#include <algorithm>
#include <iostream>
#include <utility>

namespace xoe::bench {

CycleEngine::CycleEngine(Communicator world, std::vector<Tensor> tensors)
    : world_(std::move(world)),
      tensors_(std::move(tensors)),
      done_(tensors_.size()),
      ready_(tensors_.size()),
      vector_(tensors_.size() + 1) {
  std::size_t total = 0;
  for (const Tensor& tensor : tensors_) total += tensor.count;
  fusion_.resize(std::min(total, kFusionBytes / sizeof(float)));
  thread_ = std::jthread([this] { loop(); });
}

CycleEngine::~CycleEngine() { stays_ = false; }

void CycleEngine::submit(std::size_t tensor) {
  done_[tensor].store(false, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  queue_.push_back(tensor);
}

bool CycleEngine::wait(std::size_t tensor) {
  for (;;) {
    const std::uint32_t heard = responses_.load(std::memory_order_acquire);
    if (failed_) return false;
    if (done_[tensor].load(std::memory_order_acquire)) return true;
    responses_.wait(heard, std::memory_order_acquire);
  }
}

void CycleEngine::loop() {
  auto last_start = std::chrono::steady_clock::now();
  for (bool stays = true; stays;) {
    std::this_thread::sleep_until(last_start + kCycle);
    last_start = std::chrono::steady_clock::now();
    if (const Status done = cycle(stays); !done) {
      std::cerr << done.error().to_string() << '\n';
      failed_ = true;
      stays = false;
      responses_.fetch_add(1, std::memory_order_release);
      responses_.notify_all();
    }
  }
}

Status CycleEngine::cycle(bool& stays) {
  {
    const std::lock_guard lock(mutex_);
    for (const std::size_t tensor : queue_) ready_[tensor] = 1;
    queue_.clear();
  }
  std::copy(ready_.begin(), ready_.end(), vector_.begin());
  vector_.back() = stays_ ? 1 : 0;
  if (const Status agreed = world_.allreduce(xoe::Tensor(vector_.data(), vector_.size()), ReduceOp::kMin); !agreed)
    return agreed;
  stays = vector_.back() != 0;
  std::vector<std::size_t> response;
  std::size_t filled = 0;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    if (vector_[t] == 0) continue;
    if (!response.empty() && filled + tensors_[t].count > fusion_.size()) {
      if (const Status reduced = reduce(response); !reduced) return reduced;
      response.clear();
      filled = 0;
    }
    response.push_back(t);
    filled += tensors_[t].count;
  }
  return response.empty() ? Status() : reduce(response);
}

Status CycleEngine::reduce(const std::vector<std::size_t>& response) {
  Status reduced;
  if (response.size() == 1) {
    const Tensor& tensor = tensors_[response.front()];
    reduced = world_.allreduce(xoe::Tensor(tensor.data, tensor.count));
  } else {
    float* place = fusion_.data();
    for (const std::size_t t : response) place = std::copy_n(tensors_[t].data, tensors_[t].count, place);
    reduced = world_.allreduce(xoe::Tensor(fusion_.data(), static_cast<std::size_t>(place - fusion_.data())));
    const float* from = fusion_.data();
    for (const std::size_t t : response) {
      std::copy_n(from, tensors_[t].count, tensors_[t].data);
      from += tensors_[t].count;
    }
  }
  for (const std::size_t t : response) {
    ready_[t] = 0;
    done_[t].store(true, std::memory_order_release);
  }
  // Once for the whole response.
  responses_.fetch_add(1, std::memory_order_release);
  responses_.notify_all();
  return reduced;
}

}  // namespace xoe::bench
