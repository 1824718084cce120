// Within how many seconds a test expects news.
#pragma once

#include <cstdlib>

#include <algorithm>
#include <thread>

namespace xoe::testing {

// `idle`: on a machine without other work. Where other programs let processes wait for a processor it takes longer by
// as much; `sanitized`: the kernel takes longer to end an instrumented process with its shadow memory.
inline double told_within(double idle = 1, double sanitized = 15) {
  double load = 0;  // of the last minute
  if (::getloadavg(&load, 1) != 1) load = 0;
  const double slower = std::max(1.0, load / static_cast<double>(std::thread::hardware_concurrency()));
  return slower * (XOE_SANITIZED != 0 ? sanitized : idle);
}

}  // namespace xoe::testing
