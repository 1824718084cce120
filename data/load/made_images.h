// Images that were made for batches which no step has used, for those that need them after all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace xoe::data {

// One image, in memory that lives as long as its pointers.
struct MadeImage {
  std::shared_ptr<const void> pixels;
  std::shared_ptr<const void> label;  // or targets
};

// By epoch and record, on which alone pixels depend. Thread safety: any thread at any time.
class MadeImages {
 public:
  void add(std::int64_t epoch, std::int64_t record, MadeImage image);
  // Takes the image out.
  std::optional<MadeImage> take(std::int64_t epoch, std::int64_t record);
  void clear();

 private:
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::int64_t>, MadeImage> images_;
  std::atomic<bool> any_ = false;  // false: take() needs no lock
};

}  // namespace xoe::data
