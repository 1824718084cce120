#include "data/image_worker.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "data/crop.h"
#include "data/example.h"

namespace xoe::data {

namespace {

constexpr std::int64_t kMostClasses = 1 << 24;
constexpr std::int64_t kRecordsAtOnce = 64;  // that a thread takes

Result<std::int64_t> read_label(const RecordIndex& index, std::int64_t record, std::string& buffer) {
  XOE_ASSIGN(const std::string_view example, index.read(record, buffer));
  const auto fields = parse_image_example(example);
  if (!fields) return failure(fields.error().code(), "{}: {}", index.name(record), fields.error().message());
  return fields->label;
}

// The highest label of an index, found by several threads.
class LabelScan {
 public:
  LabelScan(const RecordIndex& index, bool skip_bad) : index_(index), skip_bad_(skip_bad) {}

  // On each thread.
  void work() {
    std::string buffer;
    for (std::int64_t first = next_.fetch_add(kRecordsAtOnce); first < index_.records() && first < bad_record_;
         first = next_.fetch_add(kRecordsAtOnce)) {
      const std::int64_t end = std::min(first + kRecordsAtOnce, index_.records());
      for (std::int64_t record = first; record < end; ++record) take(record, read_label(index_, record, buffer));
    }
  }
  // After all of them; nullopt when no record has a label.
  Result<std::optional<std::int64_t>> highest() const {
    if (error_) return failure(*error_);
    return most_;
  }

 private:
  void take(std::int64_t record, const Result<std::int64_t>& label) {
    if (!label && skip_bad_ && may_skip(label.error())) return;
    const std::lock_guard lock(mutex_);
    if (label) {
      most_ = std::max(most_.value_or(*label), *label);
    } else if (record < bad_record_) {
      bad_record_ = record;
      error_ = label.error();
    }
  }

  const RecordIndex& index_;
  bool skip_bad_;
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<std::int64_t> bad_record_ = INT64_MAX;  // the first one
  std::mutex mutex_;
  std::optional<std::int64_t> most_;
  std::optional<Error> error_;
};

}  // namespace

bool may_skip(const Error& error) {
  return error.code() == Code::kDataLoss || error.code() == Code::kResourceExhausted;
}

Result<std::int64_t> ImageWorker::decode(std::string_view example) {
  XOE_ASSIGN(const ImageExample fields, parse_image_example(example));
  const std::int64_t most = std::int64_t{recipe_.classes} - 1 + recipe_.label_offset;
  if (fields.label < recipe_.label_offset || fields.label > most)
    return failure(Code::kDataLoss, "label {}; the {} classes have labels {} to {}", fields.label, recipe_.classes,
                   recipe_.label_offset, most);
  XOE_TRY(decoder_.decode(fields.encoded, image_));
  return fields.label - recipe_.label_offset;
}

Result<std::int64_t> ImageWorker::make(const RecordRef& ref, float* planes) {
  XOE_ASSIGN(const std::string_view example, index_->read(ref.record, record_));
  const auto label = decode(example);
  if (!label) return failure(label.error().code(), "{}: {}", index_->name(ref.record), label.error().message());
  if (recipe_.training) {
    // Keyed by the record, so that its pixels do not depend on who makes it.
    Random random(recipe_.seed, static_cast<std::uint64_t>(ref.epoch), static_cast<std::uint64_t>(ref.record));
    const Region region = random_crop(image_.width(), image_.height(), random, recipe_.min_area);
    resample(image_, region, recipe_.output, random.chance(0.5), planes);
  } else {
    resample(image_, centre_crop(image_.width(), image_.height()), recipe_.output, false, planes);
  }
  return *label;
}

Result<int> count_classes(const RecordIndex& index, const ClassCount& count) {
  LabelScan scan(index, count.skip_bad);
  {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < count.threads; ++i) helpers.emplace_back([&scan] { scan.work(); });
    scan.work();
  }
  XOE_ASSIGN(const auto most, scan.highest());
  if (!most || *most < count.label_offset)
    return failure(Code::kDataLoss, "no record has a label of {} or more, so there are no classes", count.label_offset);
  if (*most - count.label_offset >= kMostClasses)
    return failure(Code::kDataLoss, "labels go up to {}; at most {} classes are supported", *most, kMostClasses);
  return static_cast<int>(*most - count.label_offset + 1);
}

}  // namespace xoe::data
