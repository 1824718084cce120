#include "data/cli/image_facts.h"

#include "core/base/error.h"
#include "data/files/foreign_bytes.h"

namespace xoe::data {

Result<ImageFacts> read_image_facts(const ImageRecord& record, Codecs& codecs) {
  if (record.width != 0) return ImageFacts{.width = record.width, .height = record.height, .channels = record.channels};
  const auto encoding = encoding_of(record.bytes);
  if (!encoding) return failure(Code::kDataLoss, describe_no_image(record.bytes));
  return codecs.of(*encoding).facts(record.bytes);
}

}  // namespace xoe::data
