// A Chrome-trace file that several processes append to. The format: docs/formats/timeline.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::trace {

// What aligns the file with those of other hosts.
struct TraceHeader {
  std::string host;
  std::string boot_id;            // hosts with the same one have the same clock; empty: unknown
  std::int64_t base_ns = 0;       // of CLOCK_MONOTONIC: the moment that the trace calls 0
  std::int64_t wall_base_ns = 0;  // the same moment since 1970
};

// Of this machine, now.
TraceHeader this_moment(std::string host);

// The first and the last line of a file; `more` goes into the header's otherData: R"("key":"value",)".
std::string trace_header_line(const TraceHeader& header, std::string_view more = {});
std::string_view trace_closing_lines();

// Layout: one header line, one record a line, one closing event and line. Appending replaces the closing.
class TraceFile {
 public:
  static Result<TraceFile> create(const std::string& path, const TraceHeader& header);
  // `invalid_argument`: the file is of another boot, or another host.
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

}  // namespace xoe::trace
