// How many requests each client may send in a second: a bucket for each that fills steadily.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

namespace xoe::pool {

// Any thread.
class RateLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `rate`: requests in a second; 0: any number. `at_once`: after a silence; 0: twice as many as in a second.
  explicit RateLimit(int rate, int at_once = 0) : rate_(rate), at_once_(at_once == 0 ? 2.0 * rate : at_once) {}

  // False: too many.
  bool take(const std::string& client, Time now);
  // Whether take() would be true; counts nothing.
  bool would_take(const std::string& client, Time now);

 private:
  struct Bucket {
    double tokens = 0;
    Time filled = {};
  };
  double tokens_at(const Bucket& bucket, Time now) const;

  const int rate_;
  const double at_once_;
  std::mutex mutex_;
  std::map<std::string, Bucket, std::less<>> buckets_;
};

}  // namespace xoe::pool
