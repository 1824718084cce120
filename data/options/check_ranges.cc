#include "data/options/check_ranges.h"

#include "core/base/error.h"
#include "core/describe/text.h"
#include "data/options/image_fields.h"

namespace xoe::data {

Status check_ranges(const ImagePipelineOptions& options) {
  XOE_TRY(describe::check_ranges(options, "images"));
  if (options.rank < options.size) return {};
  return failure(Code::kInvalidArgument, "images: rank (0 to size - 1) is {}", options.rank);
}

}  // namespace xoe::data
