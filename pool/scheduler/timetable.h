// Who has which GPUs when: open leases and planned ones, and the earliest room between them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pool/model/state.h"
#include "pool/scheduler/choose.h"
#include "pool/scheduler/steps.h"

namespace xoe::pool {

// GPUs of a lease, from its begin to its end (not included).
struct Claim {
  std::int64_t lease = 0;
  const std::string* user = nullptr;
  const std::string* team = nullptr;
  GpuSet gpus = {};
  Time from = {};
  Time to = {};
  bool open = false;

  bool overlaps(Time begin, Time end) const noexcept { return from < end && begin < to; }
};

struct Slot {
  Time from = {};
  GpuSet gpus = {};
};

// What limits a lease besides the GPUs.
struct Limits {
  int user = 0;  // GPUs of its user at once; 0: any number
  int team = 0;  // of its team
};

// What a lease needs to start.
struct Demand {
  const Lease* lease = nullptr;
  Limits limits = {};
  GpuSet suitable = {};  // suitable_gpus() of its request
};

// The own claim of a lease is never in its way. A search walks over the steps in which the claims change, not over the
// claims.
class Timetable {
 public:
  // last: GPUs that a lease which starts at `now` gets only where there are no others.
  Timetable(const GpuTable& table, const GpuSet& available, const GpuSet& last = {}, Time now = {})
      : table_(table), available_(available), last_(last), now_(now) {}

  // Adds it in place of the claim that the same lease has. Claims on one GPU must not overlap in time.
  void put(const Claim& claim);
  const std::vector<Claim>& claims() const noexcept { return claims_; }

  // The earliest slot for the lease that starts at `from` or later, and before `before`.
  std::optional<Slot> find(const Demand& demand, Time from, std::optional<Time> before = {}) const;
  // Whether the lease can start then with these GPUs.
  bool fits(const Demand& demand, const Slot& slot) const;
  // GPUs that are free for the lease if it starts then.
  GpuSet free_for(const Lease& lease, Time from) const;
  bool within_limits(const Lease& lease, const Limits& limits, Time from) const;

 private:
  // The use between two changes. The counts are made when a search first asks for them.
  struct Use {
    GpuSet gpus = {};
    mutable int free = -1;          // -1: not counted yet
    mutable int free_on_host = -1;  // on the host that has most
  };
  using Step = Steps<Use>::Iterator;
  using Counts = std::map<std::string, Steps<int>, std::less<>>;

  const Claim* claim_of(std::int64_t lease) const;
  void apply(const Claim& claim, bool add);
  int room_in(const Use& use, bool any_host) const;
  std::pair<GpuSet, Step> window(const Demand& demand, const Claim* own, Step first, Time start) const;
  std::optional<Time> beyond(int limit, const Counts& counts, const std::string& name, const Lease& lease,
                             Time from) const;
  std::optional<Time> beyond(const Lease& lease, const Limits& limits, Time from) const;

  const GpuTable& table_;
  GpuSet available_;
  GpuSet last_;
  Time now_;
  std::vector<Claim> claims_;
  std::unordered_map<std::int64_t, std::size_t> index_;  // of the claim of a lease
  Steps<Use> used_;
  Counts by_user_, by_team_;  // GPUs
};

}  // namespace xoe::pool
