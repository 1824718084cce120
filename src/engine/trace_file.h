// A Chrome-trace file that several processes append to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::engine {

// Layout: one header line, one event a line, one closing line. Appending replaces the closing line.
class TraceFile {
 public:
  // `base_ns` is the moment that the trace calls 0; it is kept in the header for those who join.
  static Result<TraceFile> create(const std::string& path, std::int64_t base_ns);
  static Result<TraceFile> join(const std::string& path);

  std::int64_t base_ns() const noexcept { return base_ns_; }
  // `lines`: JSON objects, each ended by ",\n". All or nothing, also when the disk is full.
  Status append(std::string_view lines);

 private:
  TraceFile(std::string path, Fd fd, std::int64_t base_ns)
      : path_(std::move(path)), fd_(std::move(fd)), base_ns_(base_ns) {}

  std::string path_;
  Fd fd_;
  std::int64_t base_ns_ = 0;
};

}  // namespace xoe::engine
