#include "data/image_worker.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "data/crop.h"
#include "data/example.h"

namespace xoe::data {

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

Result<int> count_classes(const RecordIndex& index, int label_offset) {
  std::string buffer;
  std::int64_t most = label_offset - 1;
  for (std::int64_t record = 0; record < index.records(); ++record) {
    XOE_ASSIGN(const std::string_view example, index.read(record, buffer));
    const auto fields = parse_image_example(example);
    if (!fields) return failure(fields.error().code(), "{}: {}", index.name(record), fields.error().message());
    most = std::max(most, fields->label);
  }
  constexpr std::int64_t kMostClasses = 1 << 24;
  if (most - label_offset >= kMostClasses)
    return failure(Code::kDataLoss, "labels go up to {}; at most {} classes are supported", most, kMostClasses);
  return static_cast<int>(most - label_offset + 1);
}

}  // namespace xoe::data
