#include "launch/output/elastic_log.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "core/base/error.h"

namespace xoe::launch {

std::string ElasticLog::add(const ElasticEvent& event) {
  if (path_.empty()) return {};
  events_.push_back({std::chrono::system_clock::now(), event});
  if (events_.size() > kMostEvents) {
    events_.pop_front();
    ++dropped_;
  }
  const std::string beside = path_ + ".new";
  std::ofstream file(beside, std::ios::trunc);
  file << text();
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(beside, path_, error);
  if (file && !error) return {};
  return fmt::format("{} cannot be written{}; it is not kept", std::exchange(path_, {}),
                     error ? ": " + error.message() : std::string());
}

std::string ElasticLog::text() const {
  auto all = nlohmann::ordered_json::array();
  for (const auto& [at, event] : events_) {
    nlohmann::ordered_json one;
    one["at"] = std::chrono::duration<double>(at.time_since_epoch()).count();
    one["what"] = event.what;
    if (event.rank) one["rank"] = *event.rank;
    if (!event.host.empty()) one["host"] = event.host;
    if (!event.why.empty()) one["why"] = event.why;
    if (event.version) one["version"] = *event.version;
    if (event.ranks) one["ranks"] = *event.ranks;
    if (event.seconds) one["seconds"] = *event.seconds;
    if (event.code) one["code"] = *event.code;
    all.push_back(std::move(one));
  }
  nlohmann::ordered_json file;
  file["format"] = 1;
  if (dropped_ > 0) file["dropped"] = dropped_;
  file["events"] = std::move(all);
  return file.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace xoe::launch
