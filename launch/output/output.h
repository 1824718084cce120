// The destination of the job's output: the launcher's own stdout and stderr.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
#include "launch/output/panel.h"

namespace xoe::launch {

// A queue in front of a descriptor. Never blocks: it writes only what fits.
class Sink {
 public:
  // -1: drops all.
  explicit Sink(int fd);

  int fd() const noexcept { return fd_; }
  bool terminal() const noexcept { return terminal_; }
  void write(std::string_view text);
  // Of a terminal: these lines stay below all that is written, each cut to one row, until others are shown. The cursor
  // stands behind those of rank 0, where a user types.
  enum class Place : std::uint8_t { kPanel, kOut, kErr };
  void show(Place place, std::vector<std::string> lines);
  // They go away.
  void hide();
  // The terminal has another size now.
  void resized() noexcept { redraw_ = redraw_ || !drawn_.empty(); }
  // So many line ends were typed, which moved the cursor down.
  void typed(std::size_t line_ends);
  // Writes what the descriptor takes now.
  void flush();
  bool empty() const noexcept { return written_ == queue_.size(); }
  // Writers should wait.
  bool full() const noexcept { return queue_.size() - written_ > kFull; }
  // The errno of a write that failed, EPIPE when the reader left, or 0. Later writes are dropped.
  int error() const noexcept { return error_; }

 private:
  static constexpr std::size_t kFull = std::size_t{1} << 20;
  void send();
  bool draw();
  void take_away();

  int fd_;
  bool terminal_;
  std::size_t chunk_;  // bytes that a writable descriptor takes without blocking
  std::string queue_;
  std::size_t written_ = 0;
  int error_ = 0;
  std::array<std::vector<std::string>, 3> shown_;  // by place
  bool redraw_ = false;                            // what is drawn is not what is to be shown
  std::vector<std::size_t> drawn_;                 // the columns of each row; in the last one the cursor stands
};

// stdout and stderr; one queue for both where they are the same file, so that their lines do not mix.
class Output {
 public:
  Output(int out, int err);
  Sink& out() noexcept { return out_; }
  Sink& err() noexcept { return same_ ? out_ : err_; }
  Sink& none() noexcept { return none_; }  // drops all
  void flush();
  // Shown lines go away.
  void hide();
  // The terminal has another size now.
  void resized();
  // From now on there is a panel at the bottom of the terminal that is stdout.
  void use_panel(std::vector<std::string> tags, bool color);
  // Null: none.
  Panel* panel() noexcept { return panel_ ? &*panel_ : nullptr; }
  // Draws the panel. last_lines: what each rank wrote last.
  void show_panel(std::span<const std::string> last_lines);
  bool empty() const noexcept { return out_.empty() && (same_ || err_.empty()); }

 private:
  Sink out_;
  Sink err_;
  Sink none_{-1};
  bool same_;
  std::optional<Panel> panel_;
  bool color_ = true;  // of the panel
};

}  // namespace xoe::launch
