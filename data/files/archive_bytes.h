// The bytes of an archive for a reader that goes forward, over a plain file or a GZIP one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "data/files/byte_source.h"
#include "data/files/inflate.h"

namespace xoe::data {

class ArchiveBytes {
 public:
  virtual ~ArchiveBytes() = default;
  ArchiveBytes() = default;
  ArchiveBytes(const ArchiveBytes&) = delete;
  ArchiveBytes& operator=(const ArchiveBytes&) = delete;

  // Reads `count` bytes; fewer only at the end. In a GZIP file going back by more than 2 MiB decompresses all again.
  virtual Result<std::size_t> read_at(std::uint64_t offset, char* to, std::size_t count) = 0;
  // The size; of a GZIP file only once its end, or damage, was reached.
  virtual std::optional<std::uint64_t> size() const = 0;
};

bool is_gzip(const OpenFile& file);
// `points`, unless null, collects restart points of a GZIP file and must outlive the bytes.
std::unique_ptr<ArchiveBytes> archive_bytes(std::shared_ptr<const OpenFile> file, RestartPoints* points = nullptr);

}  // namespace xoe::data
