// A program that answers lines with lines: `xoe doctor probe`, most often at the other end of ssh.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::doctor {

// Answers begin with this; what a login shell prints before is passed over.
inline constexpr std::string_view kAnswerMark = "@xoe-doctor ";

class Channel {
 public:
  using Clock = std::chrono::steady_clock;

  static Result<Channel> start(const std::vector<std::string>& arguments);
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel other) noexcept;
  // Closes the program's input, gives it a moment to end, and kills it.
  ~Channel();

  // `unavailable`: it has ended or takes nothing any more.
  Status send(std::string_view line);
  // The next answer, without its mark, if it has come.
  std::optional<std::string> take();
  bool ended() const noexcept { return !out_.valid(); }  // its output has
  // How it ended: its exit code, 128 + signal, -1: it has not within the patience.
  int code(std::chrono::milliseconds patience);
  const std::string& error() const noexcept { return error_text_; }  // the end of what it wrote there

  // Reads from all until each has an answer or has ended, or it is too late. True: each has an answer.
  static bool wait(std::span<Channel* const> channels, Clock::time_point deadline);
  // Sends and waits for the answer to it.
  Result<std::string> ask(std::string_view line, std::chrono::milliseconds patience);

 private:
  Channel(pid_t child, Fd in, Fd out, Fd error);
  bool has_answer() const;
  void read_out();
  void read_error();

  pid_t child_ = -1;
  int code_ = -1;
  Fd in_;
  Fd out_;
  Fd error_;
  std::string out_text_;
  std::string error_text_;
};

}  // namespace xoe::doctor
