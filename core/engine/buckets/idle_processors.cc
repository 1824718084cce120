#include "core/engine/buckets/idle_processors.h"

#include <cstdio>
#include <optional>
#include <sstream>
#include <string_view>

#include "core/base/machine.h"
#include "core/base/process_use.h"

namespace xoe::engine {
namespace {

constexpr auto kInterval = std::chrono::seconds(1);
constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // of /proc/stat: 150 for each processor, then interrupts

struct Ticks {
  std::uint64_t idle = 0, all = 0;
};

// A line "cpu3 user nice system idle iowait irq softirq steal guest ..."; guests' time is in user.
std::optional<Ticks> ticks_of(const std::string& line, const cpu_set_t& cpus) {
  constexpr int kColumns = 8, kIdle = 3, kWaitsForDisk = 4;
  int cpu = 0, name = 0;
  if (std::sscanf(line.c_str(), "cpu%d%n", &cpu, &name) != 1 || cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &cpus))
    return std::nullopt;
  std::istringstream rest(line.substr(static_cast<std::size_t>(name)));
  Ticks ticks;
  std::uint64_t value = 0;
  for (int column = 0; column < kColumns && rest >> value; ++column) {
    ticks.all += value;
    if (column == kIdle || column == kWaitsForDisk) ticks.idle += value;
  }
  return ticks;
}

}  // namespace

IdleProcessors::IdleProcessors() : used_(process_cpu_seconds) {
  if (::sched_getaffinity(0, sizeof cpus_, &cpus_) != 0) CPU_ZERO(&cpus_);
}

IdleProcessors::Look IdleProcessors::look(Clock::time_point now) const {
  Look found{.at = now, .used = used_()};
  std::istringstream file(read_start(root_ + "/proc/stat", kMostBytes).value_or(""));
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    const auto ticks = ticks_of(line, cpus_);
    found.idle += ticks ? ticks->idle : 0;
    found.all += ticks ? ticks->all : 0;
  }
  return found;
}

bool IdleProcessors::mostly(Clock::time_point now) {
  const bool first = last_.at == Clock::time_point{};
  if (!first && now < last_.at + kInterval) return mostly_;
  const Look before = last_;
  last_ = look(now);
  if (first) return false;
  // A processor that was switched off takes its ticks along.
  const bool comparable = last_.all > before.all && last_.idle >= before.idle;
  const double idle =
      comparable ? static_cast<double>(last_.idle - before.idle) / static_cast<double>(last_.all - before.all) : 0;
  const double used = (last_.used - before.used) / std::chrono::duration<double>(now - before.at).count();
  mostly_ = mostly_ ? idle >= 0.25 || used <= 0.75 : idle >= 0.5 || used < 0.5;
  return mostly_;
}

}  // namespace xoe::engine
