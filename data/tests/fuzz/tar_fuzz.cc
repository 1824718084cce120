// Tar archives: any bytes, as they are and compressed. The first byte chooses whether the checksums of all blocks are
// made right.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "core/testing/fuzz/memory_file.h"
#include "data/files/tar.h"
#include "data/source/formats.h"
#include "data/tests/fuzz/compressed.h"
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

struct Walk {
  std::vector<TarMember> members;
  bool damaged = false;
};

// All members, behind damage too.
Walk walk(const std::string& path) {
  TarReader reader(archive_bytes(std::make_shared<const OpenFile>(OpenFile::open(path).value())));
  Walk walk;
  for (std::uint64_t end = 0;;) {
    auto member = reader.next();
    if (!member) {
      walk.damaged = true;
      if (!reader.resynchronise()) break;  // a compressed stream that is broken
      continue;
    }
    if (!*member) break;
    require((*member)->offset >= end);
    end = (*member)->offset + (*member)->bytes;
    walk.members.push_back(std::move(**member));
  }
  return walk;
}

void read_images(const std::string& path) {
  const auto images = open_image_source(
      {.directory = path, .format = SourceFormat::kTar, .on_error = OnError::kSkip, .max_bad = 1 << 30});
  if (!images) return;
  std::string buffer;
  for (std::int64_t i = 0; i < (*images)->records(); ++i) require((*images)->read(i, buffer).has_value());
}

}  // namespace

XOE_FUZZ_TARGET(tar_fuzz) {
  if (size == 0) return 0;
  std::string content(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  if (bytes[0] % 2 == 1) repair_headers(content);
  const xoe::MemoryFile file(content);
  const Walk plain = walk(file.path());
  if (!content.starts_with("\x1f\x8b") && !plain.members.empty())
    require(plain.members.back().offset + plain.members.back().bytes <= content.size());
  read_images(file.path());
  // Compressed, it has the same members.
  const xoe::MemoryFile compressed(xoe::compressed(content, Compression::kGzip));
  const Walk inflated = walk(compressed.path());
  require(plain.damaged || content.starts_with("\x1f\x8b") || inflated.members.size() == plain.members.size());
  read_images(compressed.path());
  return 0;
}
