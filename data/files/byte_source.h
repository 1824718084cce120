// The bytes of a file from front to back, as stored or decompressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::data {

// File descriptors are few (1024 by default). The files of a larger set are opened again for each read, which costs
// microseconds.
inline constexpr std::size_t kMaxOpenFiles = 256;

// A regular file with the size that it had when it was opened.
struct OpenFile {
  std::string path;
  Fd fd;
  std::uint64_t bytes = 0;
  std::int64_t modified = 0;  // nanoseconds since 1970

  // `unavailable`: it cannot be opened, or is no regular file.
  static Result<OpenFile> open(const std::string& path);

  // Reads at least one byte, and as many as one system call returns. The errors are those of read_at().
  Result<std::size_t> read_some_at(std::uint64_t offset, char* to, std::size_t count) const;
  // Reads all `count` bytes. `unavailable`: an I/O error; `data_loss`: the file has become shorter.
  Status read_at(std::uint64_t offset, char* to, std::size_t count) const;
};

// The first `most` bytes of a file, or all of a shorter one. The errors name it.
Result<std::string> read_head(const OpenFile& file, std::size_t most);

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Reads at least one byte; 0 at the end. Bytes in front of damage are delivered first, then the error, again and
  // again.
  virtual Result<std::size_t> read(char* to, std::size_t most) = 0;
  virtual Status seek(std::uint64_t offset) = 0;
  // The size, where it is known before everything is read.
  virtual std::optional<std::uint64_t> bytes() const = 0;
};

// Appends exactly `count` bytes. Memory grows with the bytes that arrive. `data_loss`: the source ends before.
Status append_bytes(ByteSource& source, std::uint64_t count, std::string& to);

std::unique_ptr<ByteSource> plain_source(std::shared_ptr<const OpenFile> file);

}  // namespace xoe::data
