#include "data/source/image_source.h"

#include <cstdint>

#include "core/base/error.h"

namespace xoe::data {

Result<std::int64_t> class_of(const ImageSource& source, std::int64_t label, int classes) {
  const std::int64_t lowest = source.label_offset();
  if (label == 0 && lowest == 1 && source.label_offset_assumed())
    return failure(
        Code::kInvalidArgument,
        "label 0, but labels in TFRecord files are taken to count from 1, as in ImageNet's; where they count "
        "from 0, say so: label_offset 0 (--label-offset 0)");
  if (label < lowest)
    return failure(Code::kDataLoss, "label {}; the labels count from {} (label_offset, --label-offset)", label, lowest);
  // Unsigned, so that labels far apart do not overflow.
  const std::uint64_t number = static_cast<std::uint64_t>(label) - static_cast<std::uint64_t>(lowest);
  if (number >= static_cast<std::uint64_t>(kMaxClasses))
    return failure(Code::kDataLoss, "label {}; at most {} classes are supported, with labels from {} on", label,
                   kMaxClasses, lowest);
  if (classes > 0 && number >= static_cast<std::uint64_t>(classes))
    return failure(
        Code::kDataLoss, "label {}; the {} classes have labels {} to {}{}", label, classes, lowest,
        lowest + classes - 1,
        number == static_cast<std::uint64_t>(classes) ? " (label_offset, --label-offset, sets the first)" : "");
  return static_cast<std::int64_t>(number);
}

}  // namespace xoe::data
