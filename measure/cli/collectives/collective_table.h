// The table and the JSON of nccl-tests, and a page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "measure/cli/collectives/collective_case.h"

namespace xoe::bench {

struct CollectiveTiming {
  double us = 0;                     // of one collective
  std::optional<std::size_t> wrong;  // elements over all ranks; unset: not checked
};

struct CollectiveRow {
  CollectiveCase one;
  std::optional<CollectiveTiming> out_of_place = {};  // unset: there is no such collective
  std::optional<CollectiveTiming> in_place = {};

  double algorithm_bandwidth(const CollectiveTiming& timing) const;  // 1e9 bytes per second
  double bus_bandwidth(const CollectiveTiming& timing) const;
};

struct CollectiveRank {
  int rank = 0;
  int pid = 0;
  std::string host;
};

struct CollectiveReport {
  std::vector<std::string> command;
  std::string backend;
  std::string memory;
  std::size_t low = 0, high = 0, step = 0, factor = 0;
  int warmup = 0, iterations = 0;
  bool check = true;
  bool rewrite = false;
  std::string started, ended;
  std::vector<CollectiveRank> ranks;
  std::vector<CollectiveRow> rows;

  std::size_t wrong() const;             // over all rows
  double average_bus_bandwidth() const;  // over all timings
};

std::string head_lines(const CollectiveReport& report);
std::string row_line(const CollectiveRow& row);
std::string foot_lines(const CollectiveReport& report);
// As nccl-tests -J writes it, its version 2.
nlohmann::ordered_json to_json(const CollectiveReport& report);
// For a browser, in one file.
std::string collectives_page(const CollectiveReport& report);

// A number in `width` places, with as many digits behind the point as fit, two at most: "45.30", "1234567".
std::string fixed_width(double value, int width);

}  // namespace xoe::bench
