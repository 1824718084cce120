// One of the output streams of one rank.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
#include "launch/output/line_cutter.h"
#include "launch/output/output.h"

namespace xoe::launch {

class Stream {
 public:
  // Reads `pipe`, if valid; `file`, if valid, receives every byte too. The sink outlives the stream. Without a tag and
  // a terminal all bytes pass as they are.
  Stream(Fd pipe, Fd file, std::string file_path, std::string tag, Sink& sink);

  // From now on bars and unfinished lines are seen while they change: on a terminal at its bottom, as those of `place`,
  // elsewhere as a line every now and then.
  void show_live(Sink::Place place) { place_ = place; }

  int fd() const noexcept { return pipe_.get(); }
  bool open() const noexcept { return pipe_.valid(); }
  bool wants_to_read() const noexcept { return open() && !sink_->full(); }
  // Reads once, up to a bound.
  void pump();
  // Bytes that did not come through the pipe.
  void feed(std::string_view bytes);
  // When flush_bar() has something to do, unless more comes: a bar was ended, and may be drawn again from below.
  std::optional<std::chrono::steady_clock::time_point> flush_at() const noexcept { return flush_at_; }
  void flush_bar(std::chrono::steady_clock::time_point now);
  // Drops what may still come.
  void close();
  // Whole lines of the last 4 KiB.
  std::vector<std::string> last_lines(std::size_t most) const;
  // The last line that is not empty, also one that has only begun; empty where it is shown live.
  std::string last_line() const;
  // When bytes last came.
  std::chrono::steady_clock::time_point heard() const noexcept { return heard_; }
  // Why the file is incomplete; empty when it is not.
  const std::string& file_error() const noexcept { return file_error_; }

 private:
  using Clock = std::chrono::steady_clock;
  void keep(std::string_view bytes);
  void remember(std::string_view bytes);
  void write_lines(std::string lines);

  Fd pipe_;
  Fd file_;
  std::string file_path_;
  std::string tag_;
  Sink* sink_;
  LineCutter cutter_;
  std::optional<Sink::Place> place_;
  Clock::time_point bar_written_ = {};
  Clock::time_point heard_ = {};
  std::optional<Clock::time_point> flush_at_;
  std::string tail_;  // of each bar the last state
  bool tail_cut_ = false;
  bool tail_returned_ = false;  // after '\r'
  std::string file_error_;
};

// The first time at which one of them has a bar to flush.
std::optional<std::chrono::steady_clock::time_point> first_flush(const std::vector<Stream>& streams);

// The file errors of all streams that have one.
std::vector<std::string> file_errors_of(const std::vector<Stream>& streams);

}  // namespace xoe::launch
