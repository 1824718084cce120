// A design to compare with: named tensors that a background thread collects once in a cycle, as Horovod does.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "xoe/communicator.h"

namespace xoe::bench {

// What Horovod's documentation and source say of its engine at its defaults, over Xoe's communicator, so that only the
// design differs. Cycles start 1 ms apart. In each the background thread pops what was submitted, agrees with the other
// ranks on what all of them have (one small allreduce of a vector with a place for each name, as when every name is in
// the response cache), copies it into a fusion buffer of up to 128 MiB, reduces that, and copies it back. A response of
// one tensor is reduced where it stands. Kinder than the original: waiters sleep, and nothing is serialised.
class CycleEngine {
 public:
  struct Tensor {
    float* data;
    std::size_t count;
  };

  // Collective. All names are known from the start.
  CycleEngine(Communicator world, std::vector<Tensor> tensors);
  ~CycleEngine();  // collective: the threads leave in the same cycle

  void submit(std::size_t tensor);
  // False: the engine has failed.
  bool wait(std::size_t tensor);

 private:
  static constexpr std::chrono::milliseconds kCycle{1};
  static constexpr std::size_t kFusionBytes = std::size_t{128} << 20;
  void loop();
  Status cycle(bool& stays);
  Status reduce(const std::vector<std::size_t>& response);

  Communicator world_;
  const std::vector<Tensor> tensors_;
  std::vector<std::atomic<bool>> done_;
  std::atomic<std::uint32_t> responses_{0};  // what waiters sleep on
  std::mutex mutex_;
  std::vector<std::size_t> queue_;   // under mutex_
  std::vector<std::uint8_t> ready_;  // popped and not yet reduced; by tensor
  std::vector<std::uint8_t> vector_;
  std::vector<float> fusion_;
  std::atomic<bool> stays_{true};
  std::atomic<bool> failed_{false};
  std::jthread thread_;  // last
};

}  // namespace xoe::bench
