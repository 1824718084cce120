#include "data/load/label_scan.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "xoe/data/map_and_batch.h"

namespace xoe::data {
namespace {

constexpr std::int64_t kMaxClasses = 1 << 24;
constexpr std::int64_t kRecordsPerTurn = 64;  // of a thread

Result<std::int64_t> read_label(const ImageSource& source, std::int64_t record, std::string& buffer) {
  XOE_ASSIGN(const ImageRecord read, source.read(record, buffer));
  return read.label;
}

// The highest label of a source, found by several threads.
class LabelScan {
 public:
  LabelScan(const ImageSource& source, bool skip_bad) : source_(source), skip_bad_(skip_bad) {}

  // On each thread.
  void work() {
    std::string buffer;
    for (std::int64_t first = next_.fetch_add(kRecordsPerTurn); first < source_.records() && first < bad_record_;
         first = next_.fetch_add(kRecordsPerTurn)) {
      const std::int64_t end = std::min(first + kRecordsPerTurn, source_.records());
      for (std::int64_t record = first; record < end; ++record) take(record, read_label(source_, record, buffer));
    }
  }
  // After all of them; nullopt when no record has a label.
  Result<std::optional<std::int64_t>> highest() const {
    if (error_) return failure(*error_);
    return highest_;
  }

 private:
  void take(std::int64_t record, const Result<std::int64_t>& label) {
    if (!label && skip_bad_ && may_skip(label.error())) return;
    const std::lock_guard lock(mutex_);
    if (label) {
      highest_ = std::max(highest_.value_or(*label), *label);
    } else if (record < bad_record_) {
      bad_record_ = record;
      error_ = label.error();
    }
  }

  const ImageSource& source_;
  bool skip_bad_;
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<std::int64_t> bad_record_ = INT64_MAX;  // the first one
  std::mutex mutex_;
  std::optional<std::int64_t> highest_;
  std::optional<Error> error_;
};

}  // namespace

Result<int> count_classes(const ImageSource& source, const ImagePipelineOptions& options) {
  LabelScan scan(source, options.on_error == OnError::kSkip);
  {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < options.threads; ++i) helpers.emplace_back([&scan] { scan.work(); });
    scan.work();
  }
  XOE_ASSIGN(const auto highest, scan.highest());
  const int offset = source.label_offset();
  if (!highest || *highest < offset)
    return failure(Code::kDataLoss, "no record has a label of {} or more, so there are no classes", offset);
  if (*highest - offset >= kMaxClasses)
    return failure(Code::kDataLoss, "labels go up to {}; at most {} classes are supported", *highest, kMaxClasses);
  return static_cast<int>(*highest - offset + 1);
}

}  // namespace xoe::data
