// Why a lease waits, in one plain sentence: the one reason that decides.
#pragma once

#include <optional>
#include <string>

#include "pool/scheduler/timetable.h"

namespace xoe::pool {

struct PlanView {
  const State& state;
  const GpuTable& table;
  const Timetable& times;
  const GpuSet& available;
  const GpuSet& stale;  // given back after the last report
  Time now;
};

// `quota`: of its team, if its plan is within it. `slot`: the lease's planned one; nullopt: it has none.
std::string explain_wait(const PlanView& view, const Demand& demand, const std::optional<int>& quota,
                         const std::optional<Slot>& slot);

}  // namespace xoe::pool
