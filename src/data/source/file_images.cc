#include "data/source/file_images.h"

#include "base/error.h"
#include "data/files/listing.h"
#include "data/records/record_file.h"

namespace xoe::data {

Result<ImageRecord> FileImages::read(std::int64_t record, std::string& buffer) const {
  const auto at = static_cast<std::size_t>(record);
  XOE_TRY(read_whole(content_.paths[at], kMaxRecordBytes, buffer));
  ImageRecord image{.bytes = buffer, .targets = {}};
  const auto classes = static_cast<std::size_t>(content_.classes);
  if (multi_label())
    image.targets = std::span(content_.targets).subspan(at * classes, classes);
  else
    image.label = content_.labels[at];
  return image;
}

}  // namespace xoe::data
