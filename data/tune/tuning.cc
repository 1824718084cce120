#include "data/tune/tuning.h"

#include <algorithm>

#include "data/tune/cpus.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace {

constexpr double kWindowSeconds = 0.2;
constexpr std::int64_t kWindowJobs = 4;
constexpr std::size_t kDefaultBudget = std::size_t{1} << 30;

}  // namespace

int most_threads(int threads, int processes) { return threads == kAutoThreads ? given_cpus(processes) : threads; }

std::size_t memory_budget(std::size_t budget) noexcept { return budget > 0 ? budget : kDefaultBudget; }

Tuning::Tuning(const TunerLimits& limits, const CpuAccount* account) : tuner_(limits), account_(account) { restart(); }

void Tuning::restart() {
  start_ = Clock::now();
  then_ = {};
  used_then_ = CpuLedger::of_process().use(account_);
}

bool Tuning::window_ended() const {
  return std::chrono::duration<double>(Clock::now() - start_).count() >= kWindowSeconds;
}

bool Tuning::step(const Totals& now) {
  if (now.taken - then_.taken < kWindowJobs) return false;
  const TunerSetting before = setting();
  CpuLedger::of_process().choose(account_, [&](const CpuLedger::Use& use) {
    const auto end = Clock::now();
    const double seconds = std::chrono::duration<double>(end - start_).count();
    const TunerSetting after = tuner_.step({.seconds = seconds,
                                            .waited = now.waited - then_.waited,
                                            .idle = now.idle - then_.idle,
                                            .jobs = static_cast<double>(now.taken - then_.taken),
                                            .input = now.input - then_.input,
                                            .used = use.mine - used_then_.mine,
                                            .used_by_others = use.others - used_then_.others + use.promised * seconds});
    start_ = end;
    used_then_ = use;
    return std::max(after.threads - before.threads, 0);
  });
  then_ = now;
  return setting() != before;
}

}  // namespace xoe::data
