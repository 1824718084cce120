#include "core/bench/engine/steps.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/bench/collectives/serve.h"
#include "core/bench/engine/networks.h"

namespace xoe::bench {
namespace {

using Clock = std::chrono::steady_clock;
using What = StepPlan::What;

constexpr std::size_t kMinSteps = 3;
constexpr int kStepsBeforeIdle = 20;
constexpr double kMostPauseMs = 2;
constexpr int kPairs = 5;  // of blocks with and without the timeline

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double cpu_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double switches(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return static_cast<double>(usage.ru_nvcsw + usage.ru_nivcsw);
}

// Of all threads but the one that measures.
Use others_use() {
  return {cpu_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu_clock(CLOCK_THREAD_CPUTIME_ID),
          switches(RUSAGE_SELF) - switches(RUSAGE_THREAD)};
}

bool parse(const std::string& command, StepPlan& plan) {
  char what[8] = {};
  char name[32] = {};
  char order[16] = "random";
  double seconds = 0;
  const bool steps = std::sscanf(command.c_str(), "%7s %31s %15s %lf", what, name, order, &seconds) == 4;
  if (!steps && std::sscanf(command.c_str(), "%7s %31s %lf", what, name, &seconds) != 3) return false;
  if (steps != (std::strcmp(what, "steps") == 0) || network(name).empty() || seconds <= 0) return false;
  plan.what = steps ? What::kSteps : std::strcmp(what, "idle") == 0 ? What::kIdle : What::kRecord;
  plan.random = !steps || std::strcmp(order, "random") == 0 ? 1 : 0;
  plan.seconds = seconds;
  std::copy(std::begin(name), std::end(name), plan.network.begin());
  return true;
}

class Steps {
 public:
  Steps(Sync& sync, const XoeBenchSteps& engine)
      : sync_(sync),
        engine_(engine),
        plan_(sync.state().steps),
        sizes_(network(plan_.network.data())),
        data_(sizes_.size()),
        order_(sizes_.size()),
        dice_(static_cast<unsigned>(sync.rank()) + 1) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  bool run(std::string& line) {
    if (engine_.prepare(engine_.context, static_cast<int>(sizes_.size()), sizes_.data(), data_.data()) == 0) {
      line = R"({"error": "not prepared"})";
      return false;
    }
    line = R"({"error": "the sums are wrong, or a step failed"})";
    bool good = check();
    if (good) good = plan_.what == What::kIdle ? idle() : plan_.what == What::kRecord ? record() : steps();
    good = good && sync_.barrier();
    if (good && sync_.rank() == 0) line = report();
    good = good && sync_.barrier();
    engine_.release(engine_.context);
    return good;
  }

 private:
  // Ranks contribute rank + 1, and every third value one more.
  bool check() {
    const auto ranks = static_cast<float>(sync_.size());
    for (std::size_t t = 0; t < sizes_.size(); ++t)
      for (std::size_t i = 0; i < sizes_[t]; ++i)
        tensor(t)[i] = static_cast<float>(sync_.rank() + 1 + (i % 3 == 0 ? 1 : 0));
    if (!sync_.barrier() || !step()) return false;
    for (std::size_t t = 0; t < sizes_.size(); ++t)
      for (std::size_t i = 0; i < sizes_[t]; ++i)
        if (tensor(t)[i] != ranks * (ranks + 1) / 2 + (i % 3 == 0 ? ranks : 0)) return false;
    return true;
  }

  bool steps() {
    std::size_t count = 0;
    return plan_samples(plan_.seconds, kMaxSamples, count) && take(0, count, own_use(0)) && keep(count);
  }

  // Alternating, so that the machine's moods meet both.
  bool record() {
    if (engine_.record == nullptr) return false;
    std::size_t block = 0;
    if (!plan_samples(plan_.seconds / (2 * kPairs), kHalf / kPairs, block)) return false;
    for (std::size_t pair = 0; pair < kPairs; ++pair) {
      for (const bool on : {pair % 2 == 0, pair % 2 != 0}) {
        if (on && engine_.record(engine_.context, 1) == 0) return false;
        Use& use = own_use(on ? 1 : 0);
        if (!take((on ? kHalf : 0) + pair * block, block, use)) return false;
        const double before = cpu_clock(CLOCK_PROCESS_CPUTIME_ID);
        if (on && engine_.record(engine_.context, 0) == 0) return false;  // writes what was recorded
        use.cpu_seconds += cpu_clock(CLOCK_PROCESS_CPUTIME_ID) - before;
      }
    }
    return keep(block * kPairs);
  }

  bool idle() {
    for (int k = 0; k < kStepsBeforeIdle; ++k)
      if (!sync_.barrier() || !step()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until every thread sleeps
    const Use before = others_use();
    std::this_thread::sleep_for(std::chrono::duration<double>(plan_.seconds));
    const Use after = others_use();
    own_use(0) = {after.cpu_seconds - before.cpu_seconds, after.switches - before.switches};
    return true;
  }

  // The same on all ranks: rank 0 measures and decides.
  bool plan_samples(double seconds, std::size_t most, std::size_t& count) {
    for (const bool last : {false, true}) {  // the first touches memory
      if (!sync_.barrier()) return false;
      const auto start = Clock::now();
      rewrite(1);
      if (!step()) return false;
      if (last) count = static_cast<std::size_t>(seconds / (since(start) + kMostPauseMs / 2 * 1e-3));
    }
    count = std::clamp<std::size_t>(sync_.share(count), kMinSteps, most);
    own_use(0) = own_use(1) = {};
    return true;
  }

  bool take(std::size_t first, std::size_t count, Use& use) {
    auto& samples = sync_.state().samples[static_cast<std::size_t>(sync_.rank())];
    const auto own_cpu = [&] { return asks_cpu() ? cpu_clock(CLOCK_THREAD_CPUTIME_ID) : 0; };
    const double before = cpu_clock(CLOCK_PROCESS_CPUTIME_ID);
    double untimed = 0;
    for (std::size_t k = first; k < first + count; ++k) {
      const double from = own_cpu();
      // Steps must not synchronise with the cycles of an engine that has them. The pause is the same on all ranks: a
      // rank that waited at the barrier would keep its core from the engine's threads.
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(pause_(common_dice_)));
      if (plan_.random != 0) std::shuffle(order_.begin(), order_.end(), dice_);
      rewrite(static_cast<float>(1 + (k & 1)));
      if (!sync_.barrier()) return false;
      untimed += own_cpu() - from;
      const auto start = Clock::now();
      if (!step()) return false;
      samples[k] = since(start);
    }
    use.cpu_seconds += cpu_clock(CLOCK_PROCESS_CPUTIME_ID) - before - untimed;
    return true;
  }

  bool keep(std::size_t count) {
    count_ = count;
    return true;
  }

  std::string report() const {
    char line[768];
    int used = std::snprintf(line, sizeof(line), R"({"network": "%s", "ranks": %d, "tensors": %zu, "bytes": %zu)",
                             plan_.network.data(), sync_.size(), sizes_.size(),
                             std::accumulate(sizes_.begin(), sizes_.end(), std::size_t{0}) * sizeof(float));
    const auto add = [&](const char* format, auto... values) {
      used += std::snprintf(line + used, sizeof(line) - static_cast<std::size_t>(used), format, values...);
    };
    if (plan_.what == What::kIdle) {
      const Use worst = most_used();
      add(R"(, "what": "idle", "cpu_ms_per_s": %.4f, "switches_per_s": %.2f)", worst.cpu_seconds * 1e3 / plan_.seconds,
          worst.switches / plan_.seconds);
    } else {
      add(R"(, "what": "%s", "order": "%s", "samples": %zu)", plan_.what == What::kRecord ? "record" : "steps",
          plan_.random != 0 ? "random" : "backward", count_);
      for (const bool on : {false, true}) {
        if (on && plan_.what != What::kRecord) break;
        add_times(add, on);
      }
    }
    add("}");
    return line;
  }

  template <class Add>
  void add_times(Add& add, bool on) const {
    std::vector<double> slowest(count_, 0.0);
    double cpu_seconds = 0;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(sync_.size()); ++rank) {
      const double* const samples = &sync_.state().samples[rank][on ? kHalf : 0];
      for (std::size_t i = 0; i < count_; ++i) slowest[i] = std::max(slowest[i], samples[i]);
      cpu_seconds += sync_.state().uses[rank][on ? 1 : 0].cpu_seconds;
    }
    const double mean = std::accumulate(slowest.begin(), slowest.end(), 0.0) / static_cast<double>(count_);
    std::sort(slowest.begin(), slowest.end());
    const auto quantile = [&](double q) {
      return slowest[static_cast<std::size_t>(q * static_cast<double>(count_ - 1) + 0.5)] * 1e6;
    };
    const char* const prefix = on ? "recorded_" : "";
    for (const auto& [name, value] : {std::pair{"min_us", quantile(0)},
                                      {"p25_us", quantile(0.25)},
                                      {"median_us", quantile(0.5)},
                                      {"p75_us", quantile(0.75)},
                                      {"p99_us", quantile(0.99)},
                                      {"mean_us", mean * 1e6}})
      add(R"(, "%s%s": %.4f)", prefix, name, value);
    if (asks_cpu())
      add(R"(, "%scpu_us": %.4f)", prefix, cpu_seconds * 1e6 / static_cast<double>(count_) / sync_.size());
  }

  Use most_used() const {
    Use worst{};
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(sync_.size()); ++rank) {
      const Use& use = sync_.state().uses[rank][0];
      worst = {std::max(worst.cpu_seconds, use.cpu_seconds), std::max(worst.switches, use.switches)};
    }
    return worst;
  }

  static constexpr std::size_t kHalf = kMaxSamples / 2;

  // To ask takes as long as a small call.
  bool asks_cpu() const { return sizes_.size() > 1; }
  Use& own_use(std::size_t which) const { return sync_.state().uses[static_cast<std::size_t>(sync_.rank())][which]; }
  float* tensor(std::size_t t) const { return static_cast<float*>(data_[t]); }
  void rewrite(float value) {
    for (std::size_t t = 0; t < sizes_.size(); ++t) std::fill_n(tensor(t), sizes_[t], value);
  }
  bool step() { return engine_.step(engine_.context, order_.data()) != 0; }

  Sync& sync_;
  const XoeBenchSteps& engine_;
  const StepPlan plan_;
  const std::vector<std::size_t> sizes_;
  std::vector<void*> data_;
  std::vector<int> order_;
  std::mt19937 dice_;
  std::mt19937 common_dice_;
  std::uniform_real_distribution<double> pause_{0.0, kMostPauseMs};
  std::size_t count_ = 0;  // of samples
};

}  // namespace
}  // namespace xoe::bench

int xoe_bench_serve_steps(const char* path, int rank, int size, const XoeBenchSteps* engine) {
  using xoe::bench::Sync;
  return xoe::bench::serve(
      path, rank, size,
      [](Sync& sync, const std::string& command) { return xoe::bench::parse(command, sync.state().steps); },
      [&](Sync& sync, std::string& line) { return xoe::bench::Steps(sync, *engine).run(line); });
}
