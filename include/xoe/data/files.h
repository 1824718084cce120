// Files as the first stage of a pipeline.
#pragma once

#include <string>
#include <vector>

#include "xoe/data/stage.h"

namespace xoe::data {

// Regular files that match any of the patterns, each once, sorted. A pattern is a path whose parts may have *, ?, [...]
// and {a,b}: "data/*/train-{0,1}*". Hidden files and index files (.xoeindex, and the .idx, .index and .tfindex of other
// tools) match only where they are named without such signs. `unavailable`: a pattern that nothing matches, or a
// directory that cannot be read.
Result<std::vector<std::string>> match_files(const std::vector<std::string>& patterns);

// The same as a stage; what matches when this is called is what every epoch has. To shuffle files, shuffle() it.
Result<StagePtr<std::string>> files(const std::vector<std::string>& patterns);

}  // namespace xoe::data
