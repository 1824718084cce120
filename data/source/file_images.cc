#include "data/source/file_images.h"

#include <algorithm>

#include "core/base/error.h"
#include "data/files/listing.h"
#include "data/records/record_file.h"
#include "xoe/data/stages.h"

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

OpenedFile FileImages::file(std::size_t number) const {
  return {.name = name_below(content_.root, content_.paths[number]), .bytes = content_.sizes[number], .records = 1};
}

std::uint64_t FileImages::labels_fingerprint() const {
  auto print = static_cast<std::uint64_t>(content_.classes);
  for (const std::int64_t label : content_.labels) print = mix(print, static_cast<std::uint64_t>(label));
  for (const float target : content_.targets) print = mix(print, target != 0 ? 1 : 0);
  return print;
}

void keep_files(FileImages::Content& content, int threads, MissingData& missing) {
  const std::vector<std::uint64_t> sizes = sizes_of_files(content.paths, threads, missing);
  const bool targets = !content.targets.empty();
  const auto classes = static_cast<std::ptrdiff_t>(content.classes);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) continue;
    content.sizes.push_back(sizes[i]);
    if (kept != i) {
      content.paths[kept] = std::move(content.paths[i]);
      if (targets) {
        const auto from = content.targets.begin() + static_cast<std::ptrdiff_t>(i) * classes;
        std::copy(from, from + classes, content.targets.begin() + static_cast<std::ptrdiff_t>(kept) * classes);
      } else {
        content.labels[kept] = content.labels[i];
      }
    }
    ++kept;
  }
  content.paths.resize(kept);
  if (targets)
    content.targets.resize(kept * static_cast<std::size_t>(classes));
  else
    content.labels.resize(kept);
}

}  // namespace xoe::data
