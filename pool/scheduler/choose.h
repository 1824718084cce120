// Which of the free GPUs a lease gets: a pure function.
#pragma once

#include <bitset>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pool/model/state.h"

namespace xoe::pool {

using GpuSet = std::bitset<kMaxGpus>;

// The numbers of a host's GPUs.
struct HostRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

// The GPUs of a pool by number: ordered by host, then UUID.
class GpuTable {
 public:
  explicit GpuTable(const State& state);

  std::size_t size() const noexcept { return gpus_.size(); }
  const Gpu& operator[](std::size_t index) const { return *gpus_[index]; }
  // kMaxGpus: there is no such GPU.
  std::size_t index_of(const std::string& uuid) const;
  GpuSet set_of(const std::vector<std::string>& uuids) const;
  std::vector<std::string> uuids_of(const GpuSet& set) const;
  const GpuSet& linked_to(std::size_t index) const { return links_[index]; }
  const std::vector<HostRange>& hosts() const noexcept { return hosts_; }

 private:
  std::vector<const Gpu*> gpus_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::vector<GpuSet> links_;
  std::vector<HostRange> hosts_;
};

// The conditions of a request that each single GPU has to meet.
struct GpuConditions {
  explicit GpuConditions(const LeaseRequest& request);

  Backend backend;
  std::string host;
  std::string type;
  std::uint64_t memory;
  std::vector<std::string> exact;
  auto operator<=>(const GpuConditions&) const = default;
};
GpuSet suitable_gpus(const GpuTable& table, const GpuConditions& wanted);

// Picks request.gpus of `free` that fulfil the conditions on their position: one host unless request.any_host, NVLinks
// between all of them if request.same_nvlink. Without that it still prefers GPUs with links among them, and leaves
// linked ones and emptier hosts to others; `avoid` comes last. nullopt: they cannot be found.
std::optional<GpuSet> choose_gpus(const GpuTable& table, const LeaseRequest& request, const GpuSet& free,
                                  const GpuSet& avoid = {});

}  // namespace xoe::pool
