// The bytes of a file in their order, as they are or decompressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "xoe/data/records.h"
#include "xoe/status.h"

namespace xoe::data {

// Descriptors are few (1024 by default); the files of a larger set are opened anew for each read, which costs
// microseconds.
inline constexpr std::size_t kMostOpenFiles = 256;

// A regular file of which as many bytes count as it had when it was opened.
struct OpenFile {
  std::string path;
  Fd fd;
  std::uint64_t bytes = 0;
  std::int64_t modified = 0;  // nanoseconds since 1970

  // `unavailable`: it cannot be opened, or is no regular file.
  static Result<OpenFile> open(const std::string& path);

  // Reads as many of them as there are at once, at least one. Errors as read_at() has.
  Result<std::size_t> read_some_at(std::uint64_t offset, char* to, std::size_t count) const;
  // Reads all of them. `unavailable`: an I/O error; `data_loss`: the file became shorter.
  Status read_at(std::uint64_t offset, char* to, std::size_t count) const;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // At least one byte; 0 at the end. What lies before a damaged place comes before its error, which stays.
  virtual Result<std::size_t> read(char* to, std::size_t most) = 0;
  virtual Status seek(std::uint64_t offset) = 0;
  // Where known before everything is read.
  virtual std::optional<std::uint64_t> bytes() const = 0;
};

// What a file's first bytes say; kNone where they say nothing.
Result<Compression> detect_compression(const std::shared_ptr<const OpenFile>& file);

std::unique_ptr<ByteSource> plain_source(std::shared_ptr<const OpenFile> file);

}  // namespace xoe::data
