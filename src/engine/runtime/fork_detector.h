// Tells the process that made it from children forked since.
#pragma once

namespace xoe::engine {

class ForkDetector {
 public:
  ForkDetector() noexcept;
  ~ForkDetector();
  ForkDetector(const ForkDetector&) = delete;
  ForkDetector& operator=(const ForkDetector&) = delete;

  bool forked() const noexcept { return *marker_ == 0; }

 private:
  volatile char* marker_;  // in a page that the kernel zeroes in children
};

}  // namespace xoe::engine
