#include "pool/core/idle.h"

#include <algorithm>

#include <fmt/format.h>

namespace xoe::pool {
namespace {

struct Summary {
  Span observed{0};
  double utilisation = 0;  // mean
  double cpus = 0;         // mean
  bool processes = false;

  bool covers(Span window, Span age) const { return age >= window && observed >= window * 9 / 10; }
};

Summary sum_up(const std::deque<IdleSample>& samples, Time from) {
  Summary sum;
  double utilisation = 0;
  double cpus = 0;
  for (const IdleSample& sample : samples) {
    if (sample.at <= from) continue;
    const Span span = std::min(sample.stands_for, sample.at - from);
    const auto weight = static_cast<double>(span.count());
    sum.observed += span;
    utilisation += weight * sample.utilisation;
    cpus += weight * sample.cpus;
    sum.processes |= sample.processes;
  }
  const double whole = std::max(1.0, static_cast<double>(sum.observed.count()));
  sum.utilisation = utilisation / whole;
  sum.cpus = cpus / whole;
  return sum;
}

void merge(IdleSample& sample, const IdleSample& next) {
  const Span both = sample.stands_for + next.stands_for;
  const double share =
      both > Span(0) ? static_cast<double>(next.stands_for.count()) / static_cast<double>(both.count()) : 0;
  sample.utilisation += share * (next.utilisation - sample.utilisation);
  sample.cpus += share * (next.cpus - sample.cpus);
  sample.processes |= next.processes;
  sample.stands_for = both;
  sample.at = next.at;
}

}  // namespace

void IdleWindow::add(const IdleSample& sample, const IdlePolicy& policy) {
  const Span longest = std::max(policy.window, policy.no_process_window);
  const Span part = std::max(longest / kMostSamples, Span(1));
  const bool same_part =
      !samples_.empty() && samples_.back().at.time_since_epoch() / part == sample.at.time_since_epoch() / part;
  if (same_part)
    merge(samples_.back(), sample);
  else
    samples_.push_back(sample);
  const Time oldest = sample.at - longest;
  while (samples_.front().at < oldest) samples_.pop_front();
}

void IdleWindow::move_times(Span by) {
  for (IdleSample& sample : samples_) sample.at += by;
}

// A window ends with the last sample, which is a moment ago. If it ended now, the part of it that is not known yet
// would make a lease seem used, where reports are rare beside the window. An older sample says nothing of the present.
Time IdleWindow::known_until(Span window, Time now) const {
  const bool is_fresh = !samples_.empty() && samples_.back().at <= now && now - samples_.back().at <= window / 6;
  return is_fresh ? samples_.back().at : now;
}

IdleAssessment IdleWindow::assess(const IdlePolicy& policy, Time begins, Time now) const {
  if (!policy.on) return {};
  const Time recently = known_until(policy.no_process_window, now);
  const Summary recent = sum_up(samples_, recently - policy.no_process_window);
  if (recent.covers(policy.no_process_window, recently - begins) && !recent.processes)
    return {true, fmt::format("no process used its GPUs for {}", span_text(policy.no_process_window))};
  const Time until = known_until(policy.window, now);
  const Summary whole = sum_up(samples_, until - policy.window);
  if (!whole.covers(policy.window, until - begins) || whole.utilisation >= policy.utilisation) return {};
  if (policy.cpu_counts && whole.cpus >= 0.5) return {};
  return {true, fmt::format("its GPUs were used {:.1f} % over {}; its processes use {:.1f} CPUs", whole.utilisation,
                            span_text(policy.window), whole.cpus)};
}

void IdleWatch::observe(const State& state, const HostReport& report, Span since, Time now) {
  std::map<std::int64_t, IdleSample> samples;
  for (std::size_t i = 0; i < report.gpus.size(); ++i) {
    const Lease* const lease = state.holder_of(report.gpus[i].uuid);
    if (lease == nullptr || lease->request.backend() != Backend::kHost) continue;  // what it does is not seen
    const GpuActivity& seen = report.activity[i];
    IdleSample& sample = samples[lease->id];
    sample.at = now;
    sample.stands_for = std::min({since, now - lease->begins, kMaxSampleSpan});
    sample.utilisation = std::max(sample.utilisation, static_cast<double>(seen.work()));
    sample.processes |= !seen.processes_known || state.is_used(report.gpus[i]) || state.works(report.gpus[i]);
    for (const GpuProcess& process : seen.processes) sample.cpus += process.cpu;
  }
  for (const auto& [id, sample] : samples) {
    windows_[id].add(sample, state.policy.idle);
    fresh_.insert(id);
  }
}

void IdleWatch::move_times(Span by) {
  judged_ += by;
  for (auto& [id, window] : windows_) window.move_times(by);
}

IdleAssessment IdleWatch::assess(const State& state, const Lease& lease, Time now) const {
  const auto user = state.users.find(lease.user);
  if (lease.idle_exempt || (user != state.users.end() && user->second.idle_exempt)) return {};
  const auto window = windows_.find(lease.id);
  return window == windows_.end() ? IdleAssessment{} : window->second.assess(state.policy.idle, lease.begins, now);
}

}  // namespace xoe::pool
