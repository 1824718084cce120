// The signals that ask a job to end, by the hosts at which they came.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace xoe::launch {

class EndSignals {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Meaning : std::uint8_t {
    kFirst,   // the job is asked to end
    kSame,    // it has been asked already
    kSecond,  // where it was asked, it is asked again: at once
  };

  // A scheduler that ends all hosts sends one signal to each: only a second one at the same host is a second one.
  Meaning note(std::size_t host, Clock::time_point now) {
    const auto [at, is_new] = seen_.emplace(host, now);
    if (is_new) {
      if (first_) return Meaning::kSame;
      first_ = now;
      return Meaning::kFirst;
    }
    return now - at->second < kSameSignal ? Meaning::kSame : Meaning::kSecond;
  }
  // When the job was asked.
  const std::optional<Clock::time_point>& first() const noexcept { return first_; }
  std::set<std::size_t> hosts() const {
    std::set<std::size_t> all;
    for (const auto& [host, when] : seen_) all.insert(host);
    return all;
  }

 private:
  // `timeout` and some shells send a signal to the process and to its group: twice, but meant once.
  static constexpr auto kSameSignal = std::chrono::milliseconds(250);

  std::map<std::size_t, Clock::time_point> seen_;
  std::optional<Clock::time_point> first_;
};

}  // namespace xoe::launch
