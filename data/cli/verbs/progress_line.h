// Progress of long work, on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "data/cli/verbs/verbs.h"

namespace xoe::tools {

// On a terminal a bar on one line, which the destructor removes; elsewhere a line at each quarter.
class ProgressLine {
 public:
  // `verb` begins the lines: "xoe data make".
  ProgressLine(std::string verb, bool wanted);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // "1200/4000 images"; on a terminal with the rate.
  void show(std::int64_t done, std::int64_t total, std::string_view unit);
  // `share` is within 0 to 1.
  void show(double share, const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  std::string verb_;
  bool wanted_;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  std::int64_t first_ = -1;  // done before the start
  double drawn_ = -1;        // when, in seconds since the start
  double first_share_ = 0;
  int quarter_ = 0;
};

// work(progress) makes images, and calls progress(done, total) meanwhile: a line shows it, and false asks to stop.
template <class Work>
auto with_progress(const std::string& verb, bool wanted, const Work& work) {
  ProgressLine line(verb, wanted);
  return work([&line](std::int64_t done, std::int64_t total) {
    line.show(done, total, "images");
    return !stopped();
  });
}

}  // namespace xoe::tools
