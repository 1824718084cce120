// Reads the lines of a file of any size with bounded memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::trace {

class LineReader {
 public:
  LineReader(int fd, std::string path, std::uint64_t line_limit)
      : fd_(fd), path_(std::move(path)), limit_(line_limit) {}

  struct Line {
    std::string_view text;     // without the newline; valid until the next call
    std::uint64_t offset = 0;  // of its first byte
    bool too_long = false;     // the text is only its start
    bool whole = true;         // ended by a newline
  };
  // False: the end.
  Result<bool> next(Line& line);
  std::uint64_t offset() const noexcept { return offset_; }

 private:
  // Appends to buffer_; false: the end.
  Result<bool> fill();
  // Skips everything up to and including the next newline.
  Status skip_line();

  int fd_;
  std::string path_;
  std::uint64_t limit_;
  std::string buffer_;
  std::size_t at_ = 0;        // of the next line in buffer_
  std::uint64_t offset_ = 0;  // of the next line in the file
};

}  // namespace xoe::trace
