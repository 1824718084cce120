// Makes results independent of the program's floating-point state.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace xoe::reduce {

// In its scope this thread rounds to nearest even and keeps subnormals, whatever the program has set (with
// torch.set_flush_denormal, or -ffast-math at link time): ranks must get the same bits on every thread.
class DefaultFloatState {
 public:
  DefaultFloatState() noexcept : before_(read()) {
    if ((before_ & kModes) != 0) [[unlikely]]
      write(before_ & ~kModes);
  }
  ~DefaultFloatState() {
    if ((before_ & kModes) != 0) [[unlikely]]
      write(before_);
  }
  DefaultFloatState(const DefaultFloatState&) = delete;
  DefaultFloatState& operator=(const DefaultFloatState&) = delete;

 private:
#if defined(__x86_64__)
  using State = std::uint32_t;
  static constexpr State kModes = 0xE040;  // MXCSR: flush to zero, rounding control, denormals are zeros
  static State read() noexcept { return _mm_getcsr(); }
  static void write(State state) noexcept { _mm_setcsr(state); }
#elif defined(__aarch64__)
  using State = std::uint64_t;
  static constexpr State kModes = 0x1C80000;  // FPCR: FZ, RMode, FZ16
  static State read() noexcept {
    State state;
    asm volatile("mrs %0, fpcr" : "=r"(state));
    return state;
  }
  static void write(State state) noexcept { asm volatile("msr fpcr, %0" : : "r"(state)); }
#else
  using State = std::uint32_t;
  static constexpr State kModes = 0;
  static State read() noexcept { return 0; }
  static void write(State) noexcept {}
#endif
  const State before_;
};

}  // namespace xoe::reduce
