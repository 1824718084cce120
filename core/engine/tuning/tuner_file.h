// Tuned values on disk: docs/formats/tuning.md.
#pragma once

#include <string>
#include <vector>

#include "core/engine/tuning/tuner.h"
#include "xoe/status.h"

namespace xoe::engine {

// Values hold for the number of ranks and hosts that they were found with.
struct TunedFor {
  int ranks = 1;
  int hosts = 1;

  bool operator==(const TunedFor&) const = default;
};

// The file's entries for these ranks and hosts, for the Tuner; none without a file. For a file that cannot be read or
// is malformed, none, and one line in `warning`.
std::vector<Tuned> load_tuned(const std::string& path, const TunedFor& place, std::string& warning);

// Replaces the file's entries for these ranks and hosts and keeps all others. Readers see the old file or the new one.
Status save_tuned(const std::string& path, const TunedFor& place, const std::vector<Tuned>& tuned);

}  // namespace xoe::engine
