// The file format of checkpoints (docs/formats/checkpoint.md), and their folder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::train {

// Named byte strings: "meta", "model", "optimizer", "rank.0", ...
using Sections = std::map<std::string, std::string, std::less<>>;

// A model with averaged weights, where a run has them.
inline constexpr std::string_view kAverageSection = "average";

// The file appears whole or not at all.
Status write_sections(const std::string& path, const Sections& sections);
std::string pack_sections(const Sections& sections);
// `data_loss`, with the name, when it is not a checkpoint, truncated or corrupt.
Result<Sections> unpack_sections(std::string_view bytes, std::string_view name);

struct StoredCheckpoint {
  std::int64_t step = 0;
  std::string path;
};

std::string checkpoint_path(const std::string& folder, std::int64_t step);  // <folder>/step-00000120.ckpt
// Ordered by step; empty when there is none or no such folder. `unavailable`: the folder cannot be listed, and may have
// some.
Result<std::vector<StoredCheckpoint>> list_checkpoints(const std::string& folder);
// Removes all but the newest `keep`, and the remains of interrupted writes. The first error, after it has tried all.
Status prune_checkpoints(const std::string& folder, int keep);

}  // namespace xoe::train
