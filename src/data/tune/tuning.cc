#include "xoe/data/detail/tuning.h"

#include <algorithm>

#include "data/tune/cpu_ledger.h"
#include "data/tune/cpus.h"
#include "data/tune/tuner.h"
#include "xoe/data/ordered_thread_pool.h"

namespace xoe::data::detail {
namespace {

constexpr double kWindowSeconds = 0.2;
constexpr std::int64_t kWindowJobs = 4;
constexpr std::size_t kDefaultBudget = std::size_t{1} << 30;

}  // namespace

int most_threads(int threads, int processes) { return threads == kAutoThreads ? given_cpus(processes) : threads; }

std::size_t memory_budget(std::size_t budget) noexcept { return budget > 0 ? budget : kDefaultBudget; }

Tuning::Tuning(const Limits& limits, const CpuAccount* account)
    : tuner_(std::make_unique<Tuner>(TunerLimits{.least = {limits.least_threads, limits.least_depth},
                                                 .most = {limits.most_threads, limits.most_depth},
                                                 .cpus = limits.cpus,
                                                 .depth_means = limits.depth_means})),
      account_(account) {
  restart();
}
Tuning::~Tuning() = default;

void Tuning::restart() {
  start_ = Clock::now();
  then_ = {};
  const CpuLedger::Use use = CpuLedger::of_process().use(account_);
  used_then_ = {use.mine, use.others};
}

bool Tuning::due() const { return std::chrono::duration<double>(Clock::now() - start_).count() >= kWindowSeconds; }

bool Tuning::step(const Totals& now) {
  if (now.taken - then_.taken < kWindowJobs) return false;
  const TunerSetting before = tuner_->setting();
  CpuLedger::of_process().choose(account_, [&](const CpuLedger::Use& use) {
    const auto end = Clock::now();
    const double seconds = std::chrono::duration<double>(end - start_).count();
    const TunerSetting setting =
        tuner_->step({.seconds = seconds,
                      .waited = now.waited - then_.waited,
                      .idle = now.idle - then_.idle,
                      .jobs = static_cast<double>(now.taken - then_.taken),
                      .input = now.input - then_.input,
                      .used = use.mine - used_then_.mine,
                      .used_by_others = use.others - used_then_.others + use.promised * seconds});
    start_ = end;
    used_then_ = {use.mine, use.others};
    return std::max(setting.threads - before.threads, 0);
  });
  then_ = now;
  return tuner_->setting() != before;
}

int Tuning::threads() const { return tuner_->setting().threads; }
std::size_t Tuning::depth() const { return tuner_->setting().depth; }
const std::string& Tuning::reason() const { return tuner_->reason(); }

}  // namespace xoe::data::detail
