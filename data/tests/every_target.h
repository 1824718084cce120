// The instruction sets that vector code is compiled for.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>

namespace xoe::data {

// Runs `body` once for each instruction set that this processor has.
template <class Body>
void on_every_target(const Body& body) {
  const std::int64_t all = hwy::SupportedTargets();
  for (const std::int64_t target : {HWY_SCALAR, HWY_AVX2, HWY_AVX3, HWY_AVX3_DL}) {
    if ((all & target) == 0 && target != HWY_SCALAR) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::GetChosenTarget().Update(target);
    body();
  }
  hwy::GetChosenTarget().Update(all);
}

}  // namespace xoe::data
