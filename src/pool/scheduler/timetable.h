// Who has which GPUs when: open leases and planned ones, and the earliest room between them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pool/model/state.h"
#include "pool/scheduler/choose.h"

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

// The own claim of a lease is never in its way.
class Timetable {
 public:
  Timetable(const GpuTable& table, GpuSet available) : table_(table), available_(available) {}

  void add(const Claim& claim) { claims_.push_back(claim); }
  // Adds it in place of the claim that the same lease has.
  void put(const Claim& claim);
  const std::vector<Claim>& claims() const noexcept { return claims_; }

  // The earliest slot for the lease that starts at `from` or later, and before `before`.
  std::optional<Slot> find(const Lease& lease, const Limits& limits, Time from, std::optional<Time> before = {}) const;
  // Whether the lease can start then with these GPUs.
  bool fits(const Lease& lease, const Limits& limits, const Slot& slot) const;
  // GPUs that are free for the lease if it starts then.
  GpuSet free_for(const Lease& lease, Time from) const;
  bool within_limits(const Lease& lease, const Limits& limits, Time from) const;

 private:
  int peak(std::string Lease::*whose, const Lease& lease, Time from, Time to) const;

  const GpuTable& table_;
  GpuSet available_;
  std::vector<Claim> claims_;
};

}  // namespace xoe::pool
