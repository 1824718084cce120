// Makes results independent of the program's floating-point state.
#pragma once

#include "processor.h"

namespace xoe::reduce {

// In its scope this thread rounds to nearest even and keeps subnormals, whatever the program has set (with
// torch.set_flush_denormal, or -ffast-math at link time): ranks must get the same bits on every thread.
class DefaultFloatState {
 public:
  DefaultFloatState() noexcept : before_(FloatModes::read()) {
    if ((before_ & FloatModes::kAll) != 0) [[unlikely]]
      FloatModes::write(before_ & ~FloatModes::kAll);
  }
  ~DefaultFloatState() {
    if ((before_ & FloatModes::kAll) != 0) [[unlikely]]
      FloatModes::write(before_);
  }
  DefaultFloatState(const DefaultFloatState&) = delete;
  DefaultFloatState& operator=(const DefaultFloatState&) = delete;

 private:
  const FloatModes::State before_;
};

}  // namespace xoe::reduce
