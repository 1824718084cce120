#include "pool/inventory/inventory.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/process_activity.h"

namespace xoe::pool {

unsigned reported_of(unsigned count, std::string_view what, HostReport& report) {
  if (count > kMaxHostGpus)
    report.add_problem(fmt::format("{} {} are more than the {} that are reported", count, what, kMaxHostGpus));
  return std::min(count, kMaxHostGpus);
}

HostReport Inventory::report() {
  HostReport report{.host = host_, .machine = machine_identity()};
  std::vector<std::string> reasons;
  now_.clear();
  for (const auto& vendor : vendors_)
    if (const auto added = vendor->add_to(report); !added) reasons.push_back(added.error().message());
  if (report.gpus.empty()) report.without = fmt::format("{}", fmt::join(reasons, "; "));
  if (report.gpus.empty() && reasons.empty())
    report.without = report.problem.empty() ? "no GPU" : "no GPU that answers";
  for (GpuActivity& activity : report.activity) add_processes(activity);
  before_ = std::move(now_);
  return report;
}

void Inventory::add_processes(GpuActivity& activity) {
  for (GpuProcess& process : activity.processes) {
    process.user = user_of_process(process.pid);
    const auto doing = process_activity(static_cast<pid_t>(process.pid));
    if (!doing) continue;
    const CpuTime time{std::chrono::duration_cast<Span>(doing->used), std::chrono::steady_clock::now()};
    now_[process.pid] = time;
    const auto before = before_.find(process.pid);
    if (before == before_.end() || before->second.used > time.used) continue;
    const std::chrono::duration<double> passed = time.at - before->second.at;
    const std::chrono::duration<double> used = time.used - before->second.used;
    if (passed.count() > 0) process.cpu = used / passed;
  }
}

}  // namespace xoe::pool
