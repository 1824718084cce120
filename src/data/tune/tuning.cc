#include "xoe/data/detail/tuning.h"

#include "data/tune/cpus.h"
#include "data/tune/tuner.h"
#include "xoe/data/workshop.h"

namespace xoe::data::detail {
namespace {

constexpr double kWindowSeconds = 0.2;
constexpr std::int64_t kWindowJobs = 4;
constexpr std::size_t kDefaultBudget = std::size_t{1} << 30;

}  // namespace

int most_threads(int threads, int processes) { return threads == kAutoThreads ? given_cpus(processes) : threads; }

std::size_t memory_budget(std::size_t budget) noexcept { return budget > 0 ? budget : kDefaultBudget; }

Tuning::Tuning(const Limits& limits)
    : tuner_(std::make_unique<Tuner>(TunerSetting{1, limits.least_depth},
                                     TunerSetting{limits.most_threads, limits.most_depth})) {
  restart();
}
Tuning::~Tuning() = default;

void Tuning::restart() {
  start_ = Clock::now();
  then_ = {};
}

bool Tuning::due() const { return std::chrono::duration<double>(Clock::now() - start_).count() >= kWindowSeconds; }

bool Tuning::step(const Totals& now) {
  if (now.taken - then_.taken < kWindowJobs) return false;
  const auto end = Clock::now();
  const TunerSetting before = tuner_->setting();
  const TunerSetting setting = tuner_->step({.seconds = std::chrono::duration<double>(end - start_).count(),
                                             .waited = now.waited - then_.waited,
                                             .idle = now.idle - then_.idle,
                                             .jobs = static_cast<double>(now.taken - then_.taken)});
  start_ = end;
  then_ = now;
  return setting != before;
}

int Tuning::threads() const { return tuner_->setting().threads; }
std::size_t Tuning::depth() const { return tuner_->setting().depth; }
const std::string& Tuning::reason() const { return tuner_->reason(); }

}  // namespace xoe::data::detail
