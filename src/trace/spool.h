// Text that a merge writes before it knows the order of events.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::trace {

// Text in an unnamed file in the folder of `path`, instead of in memory.
class Spool {
 public:
  static Result<Spool> create(const std::string& path);

  // Returns the offset of the text.
  Result<std::uint64_t> append(std::string_view text);
  Status finish();
  // REQUIRES: finish().
  Status read(std::uint64_t offset, std::size_t bytes, std::string& text) const;

 private:
  Spool(Fd fd, std::string folder) : fd_(std::move(fd)), folder_(std::move(folder)) {}

  Fd fd_;
  std::string folder_;
  std::string buffer_;
  std::uint64_t size_ = 0;
};

}  // namespace xoe::trace
