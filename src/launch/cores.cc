#include "launch/cores.h"

#include <sched.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/machine.h"
#include "base/text.h"

namespace xoe::launch {

Result<std::vector<int>> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  for (const std::string& part : split_text(text, ',')) {
    const auto dash = part.find('-');
    const auto first = parse_integer(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_integer(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= CPU_SETSIZE)
      return failure(Code::kInvalidArgument, "cpu list \"{}\": expected e.g. 0-3,8", text);
    for (auto cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

Result<std::vector<int>> allowed_cpus() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0)
    return failure(Code::kUnavailable, "cannot read the processors of this process: {}", errno_text(errno));
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

Result<std::vector<Core>> read_cores(const std::vector<int>& allowed, const std::string& sysfs) {
  std::map<std::pair<int, int>, Core> by_place;  // (socket, first cpu of the core)
  for (const int cpu : allowed) {
    const std::string folder = fmt::format("{}/cpu{}/topology/", sysfs, cpu);
    const auto siblings = read_line(folder + "thread_siblings_list");
    const auto package = read_line(folder + "physical_package_id");
    if (!siblings) return failure(Code::kUnavailable, "cannot read the cores of this host from {}", folder);
    XOE_ASSIGN(const auto threads, parse_cpu_list(*siblings));
    // Virtual machines give -1 where the socket is not known: one socket then.
    const auto socket = package ? parse_integer(*package).value_or(0) : 0;
    Core& core = by_place[{static_cast<int>(socket), threads.front()}];
    core.socket = static_cast<int>(socket);
    core.cpus.push_back(cpu);
  }
  std::vector<Core> cores;
  cores.reserve(by_place.size());
  for (auto& [place, core] : by_place) cores.push_back(std::move(core));
  return cores;
}

Result<std::vector<std::vector<int>>> share_cores(const std::vector<Core>& cores, int ranks, Binding binding) {
  std::vector<std::vector<int>> shares(static_cast<std::size_t>(ranks));
  if (binding == Binding::kNone) return shares;
  if (binding == Binding::kCore) {
    const std::size_t each = cores.size() / shares.size();
    if (each == 0)
      return failure(Code::kResourceExhausted,
                     "--bind-to core: {} ranks but only {} cores; ask for fewer ranks or leave them unbound", ranks,
                     cores.size());
    for (std::size_t i = 0; i < each * shares.size(); ++i)
      shares[i / each].insert(shares[i / each].end(), cores[i].cpus.begin(), cores[i].cpus.end());
    return shares;
  }
  std::map<int, std::vector<int>> sockets;
  for (const Core& core : cores)
    sockets[core.socket].insert(sockets[core.socket].end(), core.cpus.begin(), core.cpus.end());
  for (std::size_t rank = 0; rank < shares.size(); ++rank)
    shares[rank] =
        std::next(sockets.begin(), static_cast<std::ptrdiff_t>(rank * sockets.size() / shares.size()))->second;
  return shares;
}

int usable_cores(std::size_t allowed_cpus) {
  auto cores = static_cast<double>(allowed_cpus);
  if (read_line("/sys/devices/system/cpu/smt/active") == "1") cores /= 2;
  if (const auto quota = cpu_quota()) cores = std::min(cores, *quota);
  return std::max(1, static_cast<int>(cores));
}

}  // namespace xoe::launch
