#include "launch/output/line_cutter.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"

namespace xoe::launch {
namespace {

constexpr char kEscape = '\x1b';
constexpr std::size_t kLongestEscape = 32;

bool ends_escape(char c) { return c >= 0x40 && c <= 0x7e; }

}  // namespace

void LineCutter::feed(std::string_view bytes, std::string_view tag, std::string& out) {
  if (pass_) return pass(bytes, tag, out);
  while (!bytes.empty()) {
    if (!escape_.empty() || bytes.front() == kEscape) {
      bytes.remove_prefix(take_escape(bytes, tag, out));
      continue;
    }
    const auto end = std::min(bytes.find_first_of("\r\n\x1b"), bytes.size());
    take(bytes.substr(0, end), tag, out);
    bytes.remove_prefix(end);
    if (bytes.empty() || bytes.front() == kEscape) continue;
    if (bytes.front() == '\n')
      end_line(tag, out);
    else
      begin_again(tag, out);
    bytes.remove_prefix(1);
  }
}

void LineCutter::pass(std::string_view bytes, std::string_view tag, std::string& out) {
  std::string& partial = rows_[0].text;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    if (end == std::string_view::npos) break;
    out.append(tag).append(partial).append(bytes.substr(0, end + 1));
    partial.clear();
    bytes.remove_prefix(end + 1);
  }
  partial.append(bytes);
  if (partial.size() < kLongest) return;
  if (!tag.empty()) return finish(tag, out);
  out.append(partial);  // without tags the bytes of a rank pass as they are
  partial.clear();
}

void LineCutter::take(std::string_view text, std::string_view tag, std::string& out) {
  if (text.empty()) return;
  Row& row = rows_[row_];
  if (returned_ || fresh_) row = {.bar = returned_};
  returned_ = fresh_ = false;
  row.text.append(text);
  if (row.text.size() >= kLongest) finish(tag, out);
}

void LineCutter::end_line(std::string_view tag, std::string& out) {
  returned_ = false;
  const bool is_plain = !rows_[row_].bar && on_last_row() && !went_up_;
  if (is_plain) {
    commit(row_, tag, out);
    out.append(tag).append(rows_[0].text).push_back('\n');
    rows_[0] = {};
    fresh_ = goes_up_ = false;
    return;
  }
  if (on_last_row()) {
    if (!went_up_) commit(row_, tag, out);
    if (rows_.size() == kMostRows) commit(1, tag, out);
    rows_.emplace_back();
    fresh_ = false;
  } else {
    fresh_ = true;
  }
  ++row_;
  went_up_ = false;
}

// A second drawing of the last row, to which no cursor came back from below: the bars above are done with.
void LineCutter::begin_again(std::string_view tag, std::string& out) {
  if (on_last_row() && !went_up_ && !fresh_ && !rows_[row_].text.empty()) commit(row_, tag, out);
  returned_ = true;
}

std::size_t LineCutter::take_escape(std::string_view bytes, std::string_view tag, std::string& out) {
  std::size_t used = 0;
  while (used < bytes.size()) {
    const char c = bytes[used++];
    if (c == '\n' || c == '\r') {  // ends what began as a sequence and is none
      take(std::exchange(escape_, {}), tag, out);
      return used - 1;
    }
    escape_.push_back(c);
    const std::size_t size = escape_.size();
    const bool no_sequence = size == 2 && c != '[';
    if (size < 2 || (!no_sequence && (size == 2 || !ends_escape(c)) && size < kLongestEscape)) continue;
    const std::string sequence = std::exchange(escape_, {});
    if (no_sequence || (c != 'A' && sequence != "\x1b[2K")) {
      take(sequence, tag, out);
    } else if (c == 'A') {
      go_up(static_cast<std::size_t>(parse_integer(sequence.substr(2, size - 3)).value_or(1)));
    } else {
      rows_[row_].text.clear();
    }
    break;
  }
  return used;
}

void LineCutter::go_up(std::size_t rows) {
  row_ -= std::min(rows, row_);
  went_up_ = goes_up_ = true;
}

// Bars are filled up with blanks, to cover what stood there before.
std::string_view LineCutter::shown(const Row& row) {
  const std::string_view text = row.text;
  return row.bar ? text.substr(0, text.find_last_not_of(' ') + 1) : text;
}

void LineCutter::commit(std::size_t count, std::string_view tag, std::string& out) {
  for (std::size_t i = 0; i < count; ++i) {
    if (const auto text = shown(rows_[i]); !text.empty()) out.append(tag).append(text).push_back('\n');
  }
  rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(count));
  row_ -= count;
}

bool LineCutter::has_open_bar() const noexcept {
  if (row_ == 0 || !on_last_row() || went_up_) return false;
  return !goes_up_ || fresh_ || rows_[row_].text.empty();
}

void LineCutter::flush_bar(std::string_view tag, std::string& out) {
  if (!has_open_bar()) return;
  commit(row_, tag, out);
  goes_up_ = false;
}

void LineCutter::finish(std::string_view tag, std::string& out) {
  if (!escape_.empty()) rows_[row_].text.append(std::exchange(escape_, {}));
  rows_.emplace_back();  // commit() leaves one
  row_ = rows_.size() - 1;
  commit(row_, tag, out);
  returned_ = fresh_ = went_up_ = goes_up_ = false;
}

std::vector<std::string> LineCutter::live() const {
  std::vector<std::string> rows;
  for (const Row& row : rows_)
    if (const auto text = shown(row); !text.empty()) rows.emplace_back(text);
  return rows;
}

std::string LineCutter::bar() const { return rows_[row_].bar ? std::string(shown(rows_[row_])) : std::string(); }

}  // namespace xoe::launch
