// Files as the first stage of a pipeline.
#pragma once

#include <string>
#include <vector>

#include "xoe/data/stage.h"

namespace xoe::data {

class BadRecords;

struct MatchOptions {
  bool allow_missing = false;      // leaves out what is missing, instead of failing
  BadRecords* left_out = nullptr;  // and is told of it; may be null
};

// Files that match any of the patterns, each once, sorted. A pattern is a path whose parts may have *, ?, [...]
// and {a,b}: "data/*/train-{0,1}*". Hidden files and index files (.xoeindex, and the .idx, .index and .tfindex of other
// tools) match only where they are named without such signs; folders only where a pattern's last part is more than "*".
// `unavailable`: a pattern that nothing matches, or a directory that cannot be read. `data_loss`: what should be there
// is missing: a match is a link that leads nowhere, a folder, a pipe or an empty file, or names like
// train-00002-of-00006 promise a file that would match and is absent.
Result<std::vector<std::string>> match_files(const std::vector<std::string>& patterns,
                                             const MatchOptions& options = {});

// The same as a stage; what matches when this is called is what every epoch has. To shuffle files, shuffle() it.
Result<StagePtr<std::string>> files(const std::vector<std::string>& patterns, const MatchOptions& options = {});

}  // namespace xoe::data
