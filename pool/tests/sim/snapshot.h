// What a pool's database says at a moment, whether its server runs or not.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pool/model/state.h"
#include "xoe/status.h"

namespace xoe::pool::sim_tests {

struct LeaseRow {
  std::int64_t id = 0;
  std::string user = {}, team = {}, state = {}, why = {}, purpose = {};
  Time begins = {}, expires = {}, ended = {};
  std::vector<std::string> gpus = {};  // of which it has a row in `holding`
  int holds = 0;                       // of them, not ended
  int priority = 0;
  bool reserved = false, borrowed = false, unclaimed = false;
  std::optional<Time> starts = {};   // it waits
  std::optional<Time> ends_by = {};  // it has to give way

  Span length() const { return (ends_by ? std::min(expires, *ends_by) : expires) - begins; }
};

struct Snapshot {
  std::vector<pool::Event> events = {};          // after the number that was asked for
  std::map<std::int64_t, LeaseRow> leases = {};  // from the number that was asked for on
  std::int64_t lines = 0;                        // of the audit log
  std::map<std::string, Span> seen_use;          // busy and idle, by user
  std::size_t bytes = 0;                         // of the database and its log
};

// Another text whenever something was committed to the database; empty: not known.
std::string commit_mark(const std::string& database);

// Copies `database` and its log to `copy`, and reads that. Nothing else runs meanwhile.
Result<Snapshot> read_snapshot(const std::string& database, const std::string& copy, std::int64_t after_event,
                               std::int64_t from_lease);

}  // namespace xoe::pool::sim_tests
