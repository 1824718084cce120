// Tuned values on disk: docs/formats/tuning.md.
#pragma once

#include <string>
#include <vector>

#include "engine/tuning/tuner.h"
#include "xoe/status.h"

namespace xoe::engine {

// Values are good for the number of ranks and hosts that they were found with.
struct TunedFor {
  int ranks = 1;
  int hosts = 1;

  bool operator==(const TunedFor&) const = default;
};

// What the file says for this place, ready for the Tuner; empty without a file. A file that cannot be read or is
// malformed gives nothing, and one line in `warning`.
std::vector<Tuned> load_tuned(const std::string& path, const TunedFor& place, std::string& warning);

// Puts these in place of what the file said for this place; the rest stays. Readers see the old file or the new one.
Status save_tuned(const std::string& path, const TunedFor& place, const std::vector<Tuned>& tuned);

}  // namespace xoe::engine
