#include "core/bench/collectives/figure.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>
#include "core/base/float16.h"

namespace xoe::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSampleSeconds = 20e-6;  // a hot sample holds as many calls as fill this
constexpr std::size_t kMinSamples = 5;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Two elements of 16 bits or one of 32, all of the small integer `value`.
std::uint32_t pattern(int dtype, float value) {
  if (dtype == kBenchFloat16) {
    const auto half = static_cast<Float16>(value);
    std::uint16_t bits;
    std::memcpy(&bits, &half, sizeof(bits));
    return bits | static_cast<std::uint32_t>(bits) << 16;
  }
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return dtype == kBenchBfloat16 ? bits >> 16 | (bits & 0xFFFF0000u) : bits;
}

class Figure {
 public:
  Figure(Sync& sync, const XoeBenchEngine& engine, void* data, void* out)
      : sync_(sync), engine_(engine), plan_(sync.state().plan), data_(data), out_(out) {}

  bool check() {
    for (std::size_t i = 0; i < words(); ++i) as_words()[i] = pattern(plan_.dtype, contribution(sync_.rank(), i));
    if (!call()) return false;
    const auto* const result = static_cast<const std::uint32_t*>(out_ != nullptr ? out_ : data_);
    for (std::size_t i = 0; i < words(); ++i)
      if (result[i] != pattern(plan_.dtype, expected(i))) return false;
    return true;
  }

  // The same on all ranks: rank 0 measures and decides.
  bool plan_samples() {
    rewrite(0.0f);  // sums of hot calls stay finite
    if (!call() || !sync_.barrier()) return false;
    auto start = Clock::now();
    if (!call()) return false;
    double seconds = seconds_since(start);
    const std::uint64_t more = sync_.share(seconds < 1e-3 ? 50 : 1);
    if (!sync_.barrier()) return false;
    start = Clock::now();
    for (std::uint64_t k = 0; k < more; ++k) {
      if (!call()) return false;
    }
    seconds = std::max(seconds_since(start) / static_cast<double>(more), 1e-8);
    const double calls = plan_.rewritten != 0 ? 1 : std::max(1.0, kSampleSeconds / seconds);
    const double rewriting = plan_.rewritten != 0 ? static_cast<double>(plan_.bytes) / 10e9 : 0;
    const double samples = plan_.seconds / (seconds * calls + rewriting);
    plan_.calls_per_sample = sync_.share(static_cast<std::uint64_t>(calls));
    plan_.samples = std::clamp(sync_.share(static_cast<std::uint64_t>(samples)), std::uint64_t{kMinSamples},
                               std::uint64_t{kMaxSamples});
    return true;
  }

  bool take_samples() {
    auto& samples = sync_.state().samples[static_cast<std::size_t>(sync_.rank())];
    for (std::size_t i = 0; i < plan_.samples; ++i) {
      if (plan_.rewritten != 0) rewrite(static_cast<float>(1 + (i & 1)));
      if (!sync_.barrier()) return false;
      const auto start = Clock::now();
      for (std::uint64_t k = 0; k < plan_.calls_per_sample; ++k) {
        if (!call()) return false;
      }
      samples[i] = seconds_since(start) / static_cast<double>(plan_.calls_per_sample);
    }
    return sync_.barrier();
  }

  std::string report() const {
    std::vector<double> slowest(plan_.samples, 0.0);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(sync_.size()); ++rank) {
      const auto& samples = sync_.state().samples[rank];
      for (std::size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], samples[i]);
    }
    std::sort(slowest.begin(), slowest.end());
    const auto quantile = [&](double q) {
      return slowest[static_cast<std::size_t>(q * static_cast<double>(slowest.size() - 1) + 0.5)] * 1e6;
    };
    char line[512];
    std::snprintf(
        line, sizeof(line),
        R"({"collective": "%s", "bytes": %llu, "dtype": "%s", "mode": "%s", "ranks": %d, "samples": %llu, "calls_per_sample": %llu, )"
        R"("min_us": %.4f, "p25_us": %.4f, "median_us": %.4f, "p75_us": %.4f, "p99_us": %.4f})",
        collective_text(plan_.collective), static_cast<unsigned long long>(plan_.bytes), dtype_text(plan_.dtype),
        plan_.rewritten != 0 ? "rewritten" : "hot", sync_.size(), static_cast<unsigned long long>(plan_.samples),
        static_cast<unsigned long long>(plan_.calls_per_sample), quantile(0), quantile(0.25), quantile(0.5),
        quantile(0.75), quantile(0.99));
    return line;
  }

 private:
  // Ranks contribute rank + 1, and in every third word one more.
  static float contribution(int rank, std::size_t word) {
    return static_cast<float>(rank + 1 + (word % 3 == 0 ? 1 : 0));
  }
  float expected(std::size_t word) const {
    const auto size = static_cast<float>(sync_.size());
    const std::size_t part = words() / static_cast<std::size_t>(sync_.size());
    switch (plan_.collective) {
      case kBenchBroadcast: return contribution(0, word);
      case kBenchAllgather: return contribution(static_cast<int>(word / part), word);
      case kBenchAlltoall:
        return contribution(static_cast<int>(word / part), static_cast<std::size_t>(sync_.rank()) * part + word % part);
      default: return size * (size + 1) / 2 + (word % 3 == 0 ? size : 0);
    }
  }
  std::size_t words() const { return plan_.bytes / sizeof(std::uint32_t); }
  std::uint32_t* as_words() const { return static_cast<std::uint32_t*>(data_); }
  void rewrite(float value) { std::fill_n(as_words(), words(), pattern(plan_.dtype, value)); }
  bool call() {
    const XoeBenchCall call{plan_.collective, plan_.dtype, data_, out_, plan_.bytes / dtype_bytes(plan_.dtype)};
    return engine_.run(engine_.context, &call) != 0;
  }

  Sync& sync_;
  const XoeBenchEngine& engine_;
  Plan plan_;
  void* data_;
  void* out_;
};

}  // namespace

const char* collective_text(int collective) {
  constexpr const char* kTexts[] = {"allreduce", "broadcast", "allgather", "alltoall"};
  return kTexts[collective];
}

const char* dtype_text(int dtype) {
  return dtype == kBenchFloat32 ? "float32" : dtype == kBenchBfloat16 ? "bfloat16" : "float16";
}

std::size_t dtype_bytes(int dtype) { return dtype == kBenchFloat32 ? 4 : 2; }

bool run_figure(Sync& sync, const XoeBenchEngine& engine, std::string& line) {
  const std::size_t bytes = sync.state().plan.bytes;
  const int collective = sync.state().plan.collective;
  const bool divided = collective == kBenchAllgather || collective == kBenchAlltoall;
  if (engine.supports(engine.context, collective, sync.state().plan.dtype) == 0 ||
      (divided && bytes % (sizeof(std::uint32_t) * static_cast<std::size_t>(sync.size())) != 0)) {
    line = R"({"error": "unsupported"})";
    return sync.barrier();
  }
  void* const data = engine.acquire(engine.context, bytes);
  void* const out = collective == kBenchAlltoall && data != nullptr ? engine.acquire(engine.context, bytes) : nullptr;
  if (data == nullptr || (collective == kBenchAlltoall && out == nullptr)) {
    line = R"({"error": "no memory"})";
    return false;
  }
  Figure figure(sync, engine, data, out);
  bool good = figure.check();
  if (!good) line = R"({"error": "the result is wrong, or the call failed"})";
  good = good && figure.plan_samples() && figure.take_samples();
  if (good) {
    if (sync.rank() == 0) line = figure.report();
    good = sync.barrier();
  } else if (line.empty()) {
    line = R"({"error": "a call failed"})";
  }
  engine.release(engine.context, data, bytes);
  if (out != nullptr) engine.release(engine.context, out, bytes);
  return good;
}

}  // namespace xoe::bench
