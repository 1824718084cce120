// Knows whether this process is the one that made it, or a child forked since.
#pragma once

namespace xoe::engine {

class ForkMark {
 public:
  ForkMark() noexcept;
  ~ForkMark();
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;

  bool forked() const noexcept { return *mark_ == 0; }

 private:
  volatile char* mark_;  // in a page that the kernel empties in children
};

}  // namespace xoe::engine
