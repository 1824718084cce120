// What has come and gone in a job whose ranks and hosts may: the file elastic.json, for people and their dashboards.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>

namespace xoe::launch {

struct ElasticEvent {
  std::string what = {};               // "rank_lost", "host_lost", "host_came", "host_leaves", "news", "world", "ended"
  std::string host = {};               // empty: it is of none
  std::optional<int> rank = {};        // the slot
  std::string why = {};                //
  std::optional<int> version = {};     // of a world that has formed
  std::optional<int> ranks = {};       // that are in it
  std::optional<double> seconds = {};  // from its cause until it had formed; of "ended": how long the job ran
  std::optional<int> code = {};        // of "ended": the exit code
};

// One thread at a time.
class ElasticLog {
 public:
  // `path`: of the file; empty: none is written.
  explicit ElasticLog(std::string path) : path_(std::move(path)) {}
  // Writes the file again, as a whole. Why it cannot be written is returned once; empty: it was.
  std::string add(const ElasticEvent& event);

 private:
  static constexpr std::size_t kMostEvents = 10'000;
  struct Timed {
    std::chrono::system_clock::time_point at;
    ElasticEvent event;
  };
  std::string text() const;

  std::string path_;
  std::deque<Timed> events_;
  std::size_t dropped_ = 0;
};

}  // namespace xoe::launch
