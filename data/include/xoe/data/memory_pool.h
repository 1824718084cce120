// Memory for batches, used again and again.
#pragma once

#include <cstddef>
#include <memory>

namespace xoe::data {

// Blocks of one size, aligned to 64 bytes. Each goes back when its last owner drops it, or is freed where `most_free`
// of them wait already. Those that wait are freed once the pool and all blocks that were taken are gone. Thread safety:
// any thread at any time.
class MemoryPool {
 public:
  explicit MemoryPool(std::size_t bytes, std::size_t most_free = 8);

  // Uninitialised, or as the last owner left it.
  std::shared_ptr<void> take();
  std::size_t block_bytes() const noexcept { return bytes_; }

 private:
  class Store;
  std::shared_ptr<Store> store_;
  std::size_t bytes_;
};

}  // namespace xoe::data
