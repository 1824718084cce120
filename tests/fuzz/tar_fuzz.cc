// Tar archives: any bytes. The first byte chooses whether the checksums of all blocks are made right.
#include <algorithm>
#include <cstdio>

#include "data/files/tar.h"
#include "data/source/formats.h"
#include "memory_file.h"
#include "target.h"

namespace {

using namespace xoe::data;
using xoe::require;

void repair_headers(std::string& content) {
  for (std::size_t at = 0; at + kTarBlock <= content.size(); at += kTarBlock) {
    const auto block = content.begin() + static_cast<std::ptrdiff_t>(at);
    std::fill(block + 148, block + 156, ' ');
    unsigned sum = 0;
    for (auto byte = block; byte != block + kTarBlock; ++byte) sum += static_cast<std::uint8_t>(*byte);
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    std::copy_n(digits, 7, block + 148);
  }
}

}  // namespace

XOE_FUZZ_TARGET(tar_fuzz) {
  if (size == 0) return 0;
  std::string content(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  if (bytes[0] % 2 == 1) repair_headers(content);
  const xoe::MemoryFile file(content);
  TarReader reader(std::make_shared<const OpenFile>(OpenFile::open(file.path()).value()));
  for (std::uint64_t end = 0;;) {
    const auto member = reader.next();
    if (!member) {
      require(reader.resynchronise().has_value());
      continue;
    }
    if (!*member) break;
    require((*member)->offset >= end && (*member)->offset + (*member)->bytes <= content.size());
    end = (*member)->offset + (*member)->bytes;
  }
  const auto images = open_image_source(
      {.directory = file.path(), .format = SourceFormat::kTar, .on_error = OnError::kSkip, .max_bad = 1 << 30});
  if (!images) return 0;
  std::string buffer;
  for (std::int64_t i = 0; i < (*images)->records(); ++i) require((*images)->read(i, buffer).has_value());
  return 0;
}
