#include "data/load/made_images.h"

namespace xoe::data {

void MadeImages::add(std::int64_t epoch, std::int64_t record, MadeImage image) {
  const std::lock_guard lock(mutex_);
  images_.insert_or_assign({epoch, record}, std::move(image));
  any_.store(true, std::memory_order_relaxed);
}

std::optional<MadeImage> MadeImages::take(std::int64_t epoch, std::int64_t record) {
  if (!any_.load(std::memory_order_relaxed)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = images_.find({epoch, record});
  if (found == images_.end()) return std::nullopt;
  MadeImage image = std::move(found->second);
  images_.erase(found);
  any_.store(!images_.empty(), std::memory_order_relaxed);
  return image;
}

void MadeImages::clear() {
  const std::lock_guard lock(mutex_);
  images_.clear();
  any_.store(false, std::memory_order_relaxed);
}

}  // namespace xoe::data
