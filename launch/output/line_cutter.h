// Cuts what a rank writes into lines, and follows its progress bars.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace xoe::launch {

// A bar is a line that is written again and again: each time after '\r', and below another bar by going down with '\n'
// and up with ESC [ A, as tqdm does. Only its last state becomes a line: when the line below it is begun again, or at
// the end, or when it was left downwards and nothing more came for a while: flush_bar(). Until then it is one of
// live(). A line that grows past a limit is cut into several.
class LineCutter {
 public:
  enum class Bars : bool { kFollow, kPass };  // kPass: '\r' is a byte like others
  explicit LineCutter(Bars bars = Bars::kFollow) : pass_(bars == Bars::kPass) {}

  // Appends to `out` each line that `bytes` completes: tag, line, newline.
  void feed(std::string_view bytes, std::string_view tag, std::string& out);
  // Whether the cursor left bars downwards, so that they are done with unless it goes up to them again.
  bool has_open_bar() const noexcept;
  // Nothing came for longer than a program takes to draw bars below each other: those above the cursor become lines.
  void flush_bar(std::string_view tag, std::string& out);
  // At the end of the stream: what is unfinished becomes lines.
  void finish(std::string_view tag, std::string& out);

  // The unfinished lines, from the top: bars, and the beginning of a line.
  std::vector<std::string> live() const;
  // The bar that was drawn last, or an empty text.
  std::string bar() const;

 private:
  static constexpr std::size_t kLongest = std::size_t{64} << 10;
  static constexpr std::size_t kMostRows = 16;
  struct Row {
    std::string text = {};
    bool bar = false;
  };

  void pass(std::string_view bytes, std::string_view tag, std::string& out);
  void take(std::string_view text, std::string_view tag, std::string& out);
  void end_line(std::string_view tag, std::string& out);
  void begin_again(std::string_view tag, std::string& out);
  // The bytes of an escape sequence that `bytes` begins with, or the rest of one; acts on it when it is complete.
  std::size_t take_escape(std::string_view bytes, std::string_view tag, std::string& out);
  void go_up(std::size_t rows);
  static std::string_view shown(const Row& row);
  // The first `count` rows become lines.
  void commit(std::size_t count, std::string_view tag, std::string& out);
  bool on_last_row() const noexcept { return row_ + 1 == rows_.size(); }

  bool pass_;
  std::vector<Row> rows_{1};
  std::size_t row_ = 0;    // that the next byte belongs to
  bool returned_ = false;  // the next text draws the row again, as a bar
  bool fresh_ = false;     // the row was entered from above: the next text replaces what it holds
  bool went_up_ = false;   // since the last '\n'
  bool goes_up_ = false;   // since the last line that is no bar: it may rest in the lowest of several bars
  std::string escape_;     // the beginning of an escape sequence
};

}  // namespace xoe::launch
