// A Chrome-trace file that several processes append to. The format: docs/formats/timeline.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::trace {

// Aligns the file with files of other hosts.
struct TraceHeader {
  std::string host;
  std::string boot_id;            // traces with the same one share a clock; empty: unknown
  std::int64_t base_ns = 0;       // of CLOCK_MONOTONIC: time 0 of the trace
  std::int64_t wall_base_ns = 0;  // the same time, since 1970
  // The job that writes it, in hexadecimal digits: in its other files a rank may have gone on, on another host. Empty:
  // not known.
  std::string job = {};
};

// The header of a trace that starts now on this machine.
TraceHeader this_moment(std::string host);

// The job that has written a file, as TraceHeader has it; empty: it is not known, or there is no such file.
std::string job_of_trace(const std::string& path);

// The first and the last lines of a file. more: goes into the header's otherData, as R"("key":"value",)".
std::string trace_header_line(const TraceHeader& header, std::string_view more = {});
std::string_view trace_closing_lines();

// Layout: a header line, one line per record, a closing event and line. Appending overwrites the closing.
class TraceFile {
 public:
  static Result<TraceFile> create(const std::string& path, const TraceHeader& header);
  // `invalid_argument`: the file was written after another boot, on another host, or by another job than `job`.
  static Result<TraceFile> join(const std::string& path, const std::string& job = {});

  std::int64_t base_ns() const noexcept { return base_ns_; }
  // lines: JSON objects, each followed by ",\n". All or none are written, also when the disk is full.
  Status append(std::string_view lines);

 private:
  TraceFile(std::string path, Fd fd, std::int64_t base_ns)
      : path_(std::move(path)), fd_(std::move(fd)), base_ns_(base_ns) {}

  std::string path_;
  Fd fd_;
  std::int64_t base_ns_ = 0;
};

}  // namespace xoe::trace
