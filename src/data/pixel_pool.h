// Memory for batches, used again and again.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

namespace xoe::data {

// Blocks of one size, aligned to 64 bytes; each goes back when its last owner drops it, or is freed when the pool is
// gone.
class PixelPool {
 public:
  explicit PixelPool(std::size_t floats) : store_(std::make_shared<Store>()), floats_(floats) {}

  std::shared_ptr<float> take() {
    Block block = store_->take();
    if (!block) block = Block(static_cast<float*>(::operator new[](floats_ * sizeof(float), kAlign)));
    float* data = block.get();
    return {data, [store = store_, owned = std::make_shared<Block>(std::move(block))](float*) {
              store->give(std::move(*owned));
            }};
  }

 private:
  static constexpr std::align_val_t kAlign{64};
  struct Free {
    void operator()(float* data) const { ::operator delete[](data, kAlign); }
  };
  using Block = std::unique_ptr<float[], Free>;

  class Store {
   public:
    Block take() {
      const std::lock_guard lock(mutex_);
      if (free_.empty()) return nullptr;
      Block block = std::move(free_.back());
      free_.pop_back();
      return block;
    }
    void give(Block block) {
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(block));
    }

   private:
    std::mutex mutex_;
    std::vector<Block> free_;
  };

  std::shared_ptr<Store> store_;
  std::size_t floats_;
};

}  // namespace xoe::data
