// What leases used of their GPUs, collected until it is stored.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "pool/state/store.h"

namespace xoe::pool {

class UsageMeter {
 public:
  // `since`: the time before `now` that the report stands for.
  void observe(const State& state, const HostReport& report, Span since, Time now);
  // Once a minute; what a crash loses is less than that.
  bool is_due(Time now) const { return now < stored_ || now - stored_ >= std::chrono::minutes(1); }
  Status store_in(Store& store, Time now) const;
  // What was stored is committed.
  void stored(Time now);

 private:
  struct Use {
    Span busy{0};
    Span idle{0};
  };
  std::map<std::pair<std::string, std::string>, Use> uses_;  // by user and team
  Time stored_ = {};
};

}  // namespace xoe::pool
