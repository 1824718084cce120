// A point in time that one process records and others read.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <chrono>

namespace xoe::testing {

// One clock for all processes of a machine.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Make it before the processes are forked.
class SharedTime {
 public:
  SharedTime()
      : at_(static_cast<std::atomic<double>*>(
            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedTime() { ::munmap(at_, 4096); }
  void is_now() { at_->store(now_seconds()); }
  double seconds_ago() const { return now_seconds() - at_->load(); }

 private:
  std::atomic<double>* at_;
};

}  // namespace xoe::testing
