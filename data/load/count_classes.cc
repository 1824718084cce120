#include "data/load/count_classes.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "data/failure_in.h"
#include "data/files/missing.h"
#include "data/threads.h"

namespace xoe::data {
namespace {

constexpr std::int64_t kRecordsPerTurn = 64;  // of a thread

// The class of a record, from 0.
Result<std::int64_t> read_class(const ImageSource& source, std::int64_t record, std::string& buffer) {
  XOE_ASSIGN(const std::int64_t label, source.label(record, buffer));
  auto number = class_of(source, label, 0);
  if (!number) return failure_in(source.name(record), number.error());
  return number;
}

}  // namespace

Result<int> count_classes(const ImageSource& source, const ImagePipelineOptions& options) {
  std::mutex mutex;
  std::int64_t classes = 0;
  std::optional<Error> error;                        // of the first bad record
  std::atomic<std::int64_t> bad_record = INT64_MAX;  // its number
  const std::int64_t turns = (source.records() + kRecordsPerTurn - 1) / kRecordsPerTurn;
  for_each_in_threads(static_cast<std::size_t>(turns), options.threads, [&](std::size_t turn) {
    const std::int64_t first = static_cast<std::int64_t>(turn) * kRecordsPerTurn;
    std::string buffer;
    for (std::int64_t i = first; i < std::min(first + kRecordsPerTurn, source.records()) && i < bad_record; ++i) {
      const auto number = read_class(source, i, buffer);
      if (!number && options.on_error == OnError::kSkip && may_skip(number.error())) continue;
      const std::lock_guard lock(mutex);
      if (number) {
        classes = std::max(classes, *number + 1);
      } else if (i < bad_record) {
        bad_record = i;
        error = number.error();
      }
    }
  });
  if (error && may_skip(*error) && options.max_bad == 0)
    return failure(error->code(), "{}; {}", error->message(), kMayLeaveOut);
  if (error) return failure(*error);
  if (classes == 0)
    return failure(Code::kDataLoss, "{}: no record has a label of {} or more, so there are no classes",
                   options.directory, source.label_offset());
  return static_cast<int>(classes);
}

}  // namespace xoe::data
