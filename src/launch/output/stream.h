// One of the output streams of one rank.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "launch/output/output.h"

namespace xoe::launch {

// Cuts bytes into whole lines; a line that grows past a limit is cut into several.
class LineCutter {
 public:
  // Appends to `out` each line that `bytes` completes: tag, line, newline.
  void feed(std::string_view bytes, std::string_view tag, std::string& out);
  // At the end of the stream: the rest without a newline becomes a line.
  void finish(std::string_view tag, std::string& out);

 private:
  static constexpr std::size_t kLongest = std::size_t{64} << 10;
  std::string partial_;
};

class Stream {
 public:
  // Reads `pipe`, if valid; `file`, if valid, receives every byte too. The sink outlives the stream.
  Stream(Fd pipe, Fd file, std::string file_path, std::string tag, Sink& sink);

  int fd() const noexcept { return pipe_.get(); }
  bool open() const noexcept { return pipe_.valid(); }
  bool wants_to_read() const noexcept { return open() && !sink_->full(); }
  // Reads once, up to a bound.
  void pump();
  // Bytes that did not come through the pipe.
  void feed(std::string_view bytes);
  // Drops what may still come.
  void close();
  // Whole lines of the last 4 KiB.
  std::vector<std::string> last_lines(std::size_t most) const;
  // Why the file is incomplete; empty when it is not.
  const std::string& file_error() const noexcept { return file_error_; }

 private:
  void keep(std::string_view bytes);

  Fd pipe_;
  Fd file_;
  std::string file_path_;
  std::string tag_;
  Sink* sink_;
  LineCutter cutter_;
  std::string tail_;
  bool tail_cut_ = false;
  std::string file_error_;
};

// The file errors of all streams that have one.
std::vector<std::string> file_errors_of(const std::vector<Stream>& streams);

}  // namespace xoe::launch
