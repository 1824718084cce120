#include "data/load/label_scan.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "data/records/threads.h"
#include "xoe/data/map_and_batch.h"

namespace xoe::data {
namespace {

constexpr std::int64_t kMaxScannedClasses = 1 << 24;
constexpr std::int64_t kRecordsPerTurn = 64;  // of a thread

// The highest label of all records; nullopt: there is no label.
Result<std::optional<std::int64_t>> highest_label(const ImageSource& source, const ImagePipelineOptions& options) {
  std::mutex mutex;
  std::optional<std::int64_t> highest;
  std::optional<Error> error;                        // of the first bad record
  std::atomic<std::int64_t> bad_record = INT64_MAX;  // its number
  const std::int64_t turns = (source.records() + kRecordsPerTurn - 1) / kRecordsPerTurn;
  for_each_in_threads(static_cast<std::size_t>(turns), options.threads, [&](std::size_t turn) {
    const std::int64_t first = static_cast<std::int64_t>(turn) * kRecordsPerTurn;
    std::string buffer;
    for (std::int64_t i = first; i < std::min(first + kRecordsPerTurn, source.records()) && i < bad_record; ++i) {
      const auto record = source.read(i, buffer);
      if (!record && options.on_error == OnError::kSkip && may_skip(record.error())) continue;
      const std::lock_guard lock(mutex);
      if (record) {
        highest = std::max(highest.value_or(record->label), record->label);
      } else if (i < bad_record) {
        bad_record = i;
        error = record.error();
      }
    }
  });
  if (error) return failure(*error);
  return highest;
}

}  // namespace

Result<int> count_classes(const ImageSource& source, const ImagePipelineOptions& options) {
  XOE_ASSIGN(const auto highest, highest_label(source, options));
  const int offset = source.label_offset();
  if (!highest || *highest < offset)
    return failure(Code::kDataLoss, "no record has a label of {} or more, so there are no classes", offset);
  if (*highest - offset >= kMaxScannedClasses)
    return failure(Code::kDataLoss, "labels go up to {}; at most {} classes are supported", *highest,
                   kMaxScannedClasses);
  return static_cast<int>(*highest - offset + 1);
}

}  // namespace xoe::data
