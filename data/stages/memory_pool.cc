#include "xoe/data/memory_pool.h"

#include <mutex>
#include <new>
#include <vector>

namespace xoe::data {
class MemoryPool::Store {
 public:
  static constexpr std::align_val_t kAlign{64};
  struct Free {
    void operator()(void* block) const { ::operator delete(block, kAlign); }
  };
  using Block = std::unique_ptr<void, Free>;

  explicit Store(std::size_t most_free) : most_free_(most_free) {}

  Block take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        Block block = std::move(free_.back());
        free_.pop_back();
        return block;
      }
    }
    return Block(::operator new(bytes, kAlign));
  }
  void give(void* block) {
    Block owned(block);
    const std::lock_guard lock(mutex_);
    if (free_.size() < most_free_) free_.push_back(std::move(owned));
  }

 private:
  const std::size_t most_free_;
  std::mutex mutex_;
  std::vector<Block> free_;
};

MemoryPool::MemoryPool(std::size_t bytes, std::size_t most_free)
    : store_(std::make_shared<Store>(most_free)), bytes_(bytes) {}

std::shared_ptr<void> MemoryPool::take() {
  void* data = store_->take(bytes_).release();  // the pointer gives it back also when it cannot be made
  return {data, [store = store_](void* done) { store->give(done); }};
}

}  // namespace xoe::data
