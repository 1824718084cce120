#include "launch/plan/binding.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/plan/locality.h"

namespace xoe::launch {

std::vector<std::vector<int>> cpus_near_gpus(const Env& variables, std::size_t ranks, const std::vector<CpuCore>& cores,
                                             const GpuFiles& files) {
  const auto gpus = read_gpus(files);
  std::vector<std::string> devices;
  if (const auto list = variables.text("CUDA_VISIBLE_DEVICES"))
    devices = split_text(*list, ',');
  else
    for (std::size_t i = 0; i < gpus.size(); ++i) devices.push_back(std::to_string(i));
  if (devices.size() < ranks) return {};
  devices.resize(ranks);
  return cpus_near(cores, numa_nodes_of(devices, gpus));
}

Result<BoundRanks> bind_ranks(Binding binding, bool by_socket, std::size_t ranks, const Env& variables,
                              const HostFacts& facts) {
  BoundRanks bound{.cpus = std::vector<std::vector<int>>(ranks)};
  if (binding == Binding::kNone) return bound;
  XOE_ASSIGN(const auto cores, read_cores(facts.allowed_cpus, facts.sysfs));
  int first = -1;
  if (binding == Binding::kNuma) {
    if (auto near = cpus_near_gpus(variables, ranks, cores, facts.gpus); !near.empty())
      return BoundRanks{.cpus = std::move(near), .locality = "each near its GPU"};
    first = numa_node_of_interface(facts.interface, facts.net);
    const bool allowed = std::ranges::find(cores, first, &CpuCore::numa) != cores.end();
    const bool several = std::ranges::adjacent_find(cores, std::ranges::not_equal_to(), &CpuCore::numa) != cores.end();
    if (allowed && several)
      bound.locality = fmt::format("from NUMA node {} on, which {} is near", first, facts.interface);
  }
  XOE_ASSIGN(bound.cpus, share_cores(cores, static_cast<int>(ranks), binding, by_socket, first));
  return bound;
}

std::string_view describe(Binding binding) {
  switch (binding) {
    case Binding::kNone: return "ranks are not bound";
    case Binding::kCore: return "each rank is bound to cores of its own";
    case Binding::kSocket: return "each rank is bound to one socket";
    case Binding::kNuma:
      return "each rank is bound near its GPU, or else to one NUMA node, from the network interface's on";
  }
  return {};
}

}  // namespace xoe::launch
