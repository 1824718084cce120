// Files that a merge writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::engine {

// A file that is there with all of its content, or not at all: a hidden one beside the place until commit().
class OutputFile {
 public:
  // `invalid_argument`: something is at `path` and may not be replaced.
  static Result<OutputFile> create(std::string path, bool replace);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  Status write(std::string_view text);
  Status commit();

 private:
  OutputFile(std::string path, std::string temporary, Fd fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}
  Status flush();

  std::string path_;
  std::string temporary_;  // empty: committed or moved from
  Fd fd_;
  std::string buffer_;
};

// Text on disk instead of in memory, without a name, in the folder of `path`.
class Spool {
 public:
  static Result<Spool> create(const std::string& path);

  // Where it begins.
  Result<std::uint64_t> append(std::string_view text);
  Status finish();
  // After finish().
  Status read(std::uint64_t offset, std::size_t bytes, std::string& text) const;

 private:
  Spool(Fd fd, std::string folder) : fd_(std::move(fd)), folder_(std::move(folder)) {}

  Fd fd_;
  std::string folder_;
  std::string buffer_;
  std::uint64_t size_ = 0;
};

}  // namespace xoe::engine
