#include "pool/scheduler/choose.h"

#include <algorithm>
#include <cctype>
#include <tuple>

namespace xoe::pool {
namespace {

// Cards have a little less than they are sold with: "16 GB" are 15,360 MiB on a T4, "80 GB" 81,559 MiB, with ECC less.
bool has_memory(const Gpu& gpu, std::uint64_t wanted) { return gpu.memory >= wanted - wanted / 10; }

bool contains_ignoring_case(const std::string& text, const std::string& part) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

// Extends `chosen` to `wanted` GPUs of `candidates`, each linked to each, from number `next` on.
bool extend_clique(const GpuTable& table, GpuSet& chosen, GpuSet candidates, std::size_t next, std::size_t wanted) {
  if (chosen.count() == wanted) return true;
  for (std::size_t gpu = next; gpu < table.size() && chosen.count() + candidates.count() >= wanted; ++gpu) {
    if (!candidates[gpu]) continue;
    candidates.reset(gpu);
    chosen.set(gpu);
    if (extend_clique(table, chosen, candidates & table.linked_to(gpu), gpu + 1, wanted)) return true;
    chosen.reset(gpu);
  }
  return false;
}

// Adds the GPU with the most links to those chosen, and the fewest to others that stay free.
GpuSet grow(const GpuTable& table, HostRange host, const GpuSet& free, std::size_t seed, std::size_t wanted) {
  GpuSet chosen;
  chosen.set(seed);
  for (std::size_t count = 1; count < wanted; ++count) {
    std::size_t best = kMaxGpus;
    std::tuple<std::size_t, std::size_t> best_score;
    for (std::size_t gpu = host.first; gpu < host.end; ++gpu) {
      if (!free[gpu] || chosen[gpu]) continue;
      const auto inside = (table.linked_to(gpu) & chosen).count();
      const std::tuple score(kMaxGpus - inside, (table.linked_to(gpu) & free & ~chosen).count());
      if (best == kMaxGpus || score < best_score) std::tie(best, best_score) = std::pair(gpu, score);
    }
    chosen.set(best);
  }
  return chosen;
}

// From GPUs of `set` to GPUs of `others`.
std::size_t links_between(const GpuTable& table, HostRange host, const GpuSet& set, const GpuSet& others) {
  std::size_t links = 0;
  for (std::size_t gpu = host.first; gpu < host.end; ++gpu)
    if (set[gpu]) links += (table.linked_to(gpu) & others).count();
  return links;
}

struct Choice {
  GpuSet gpus;
  // Smaller is better: GPUs to avoid, links that are missing, links that are cut, GPUs that stay free on the host.
  std::tuple<std::size_t, std::size_t, std::size_t, std::size_t> cost;
};

std::optional<Choice> choose_on_host(const GpuTable& table, HostRange host, const LeaseRequest& request,
                                     const GpuSet& free, const GpuSet& avoid) {
  const auto wanted = static_cast<std::size_t>(request.gpus);
  if (free.count() < wanted) return std::nullopt;
  const auto rated = [&](const GpuSet& gpus) {
    return Choice{gpus,
                  {(gpus & avoid).count(), wanted * wanted - links_between(table, host, gpus, gpus),
                   links_between(table, host, gpus, free & ~gpus), free.count() - wanted}};
  };
  std::optional<Choice> best;
  const auto consider = [&](const GpuSet& gpus) {
    Choice choice = rated(gpus);
    if (!best || choice.cost < best->cost) best = choice;
  };
  const GpuSet preferred = free & ~avoid;
  for (const GpuSet& among : {preferred, free}) {
    if (best || among.count() < wanted) continue;
    for (std::size_t seed = host.first; seed < host.end; ++seed) {
      if (!among[seed]) continue;
      if (!request.same_nvlink) {
        consider(grow(table, host, among, seed, wanted));
        continue;
      }
      GpuSet chosen;
      chosen.set(seed);
      if (extend_clique(table, chosen, among & table.linked_to(seed), seed + 1, wanted)) consider(chosen);
    }
  }
  return best;
}

// As few hosts as possible: those with the most free GPUs first.
std::optional<GpuSet> choose_on_any_host(const GpuTable& table, const LeaseRequest& request, const GpuSet& free) {
  auto missing = static_cast<std::size_t>(request.gpus);
  if (free.count() < missing) return std::nullopt;
  std::vector<GpuSet> by_host;
  for (const auto& [first, end] : table.hosts()) {
    GpuSet here;
    for (std::size_t gpu = first; gpu < end; ++gpu) here[gpu] = free[gpu];
    by_host.push_back(here);
  }
  std::ranges::stable_sort(by_host, std::greater(), [](const GpuSet& set) { return set.count(); });
  GpuSet chosen;
  for (const GpuSet& here : by_host)
    for (std::size_t gpu = 0; gpu < table.size() && missing > 0; ++gpu)
      if (here[gpu]) {
        chosen.set(gpu);
        --missing;
      }
  return chosen;
}

}  // namespace

GpuTable::GpuTable(const State& state) {
  for (const auto& [uuid, gpu] : state.gpus) gpus_.push_back(&gpu);
  if (gpus_.size() > kMaxGpus) {  // a database of an earlier version; those that are no more are forgotten by and by
    std::ranges::stable_partition(gpus_, [&](const Gpu* gpu) { return state.is_present(*gpu); });
    gpus_.resize(kMaxGpus);
  }
  std::ranges::sort(gpus_, {}, [](const Gpu* gpu) { return std::tie(gpu->host, gpu->uuid); });
  links_.resize(gpus_.size());
  for (std::size_t i = 0; i < gpus_.size(); ++i) index_[gpus_[i]->uuid] = i;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    for (const std::string& peer : gpus_[i]->nvlinks)
      if (const std::size_t other = index_of(peer); other < kMaxGpus && other != i) links_[i].set(other);
    if (i == 0 || gpus_[i]->host != gpus_[i - 1]->host) hosts_.push_back({i, i});
    hosts_.back().end = i + 1;
  }
}

std::size_t GpuTable::index_of(const std::string& uuid) const {
  const auto found = index_.find(uuid);
  return found == index_.end() ? kMaxGpus : found->second;
}

GpuSet GpuTable::set_of(const std::vector<std::string>& uuids) const {
  GpuSet set;
  for (const std::string& uuid : uuids)
    if (const std::size_t gpu = index_of(uuid); gpu < kMaxGpus) set.set(gpu);
  return set;
}

std::vector<std::string> GpuTable::uuids_of(const GpuSet& set) const {
  std::vector<std::string> uuids;
  for (std::size_t gpu = 0; gpu < size(); ++gpu)
    if (set[gpu]) uuids.push_back(gpus_[gpu]->uuid);
  return uuids;
}

GpuConditions::GpuConditions(const LeaseRequest& request)
    : backend(request.backend()),
      host(request.host),
      type(request.type),
      memory(request.memory),
      exact(request.exact) {}

GpuSet suitable_gpus(const GpuTable& table, const GpuConditions& wanted) {
  GpuSet set;
  for (std::size_t gpu = 0; gpu < table.size(); ++gpu)
    set[gpu] = table[gpu].backend() == wanted.backend && (wanted.host.empty() || table[gpu].host == wanted.host) &&
               has_memory(table[gpu], wanted.memory) && contains_ignoring_case(table[gpu].name, wanted.type) &&
               (wanted.exact.empty() || std::ranges::find(wanted.exact, table[gpu].uuid) != wanted.exact.end());
  return set;
}

std::optional<GpuSet> choose_gpus(const GpuTable& table, const LeaseRequest& request, const GpuSet& free,
                                  const GpuSet& avoid) {
  if (request.any_host && !request.same_nvlink) {
    const auto preferred = choose_on_any_host(table, request, free & ~avoid);
    return preferred ? preferred : choose_on_any_host(table, request, free);
  }
  std::optional<Choice> best;
  for (const HostRange host : table.hosts()) {
    GpuSet here;
    for (std::size_t gpu = host.first; gpu < host.end; ++gpu) here[gpu] = free[gpu];
    auto choice = choose_on_host(table, host, request, here, avoid);
    if (choice && (!best || choice->cost < best->cost)) best = choice;
  }
  if (!best) return std::nullopt;
  return best->gpus;
}

}  // namespace xoe::pool
