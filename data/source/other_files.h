// Warnings about the files that a data set of large files has beside those of the split.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/source/formats.h"

namespace xoe::data {

// Sentences for warnings: which of the files that could be of the data set neither split takes, and whether those that
// are read stand there in two divisions. candidates: of this format by name or content, sorted. taken: of the split.
std::vector<std::string> describe_other_files(const ImagePipelineOptions& options,
                                              const std::vector<std::string>& candidates,
                                              const std::vector<std::string>& taken,
                                              const std::vector<std::string>& other_split);

}  // namespace xoe::data
