// Warnings about the files that a data set of large files has beside those of the split.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/source/formats.h"

namespace xoe::data {

// How a format finds its files.
struct FileSearch {
  // All of a directory that are of the format by name or content, sorted.
  std::function<std::vector<std::string>(const std::string& directory)> candidates;
  // Those of the split that the options name, sorted.
  std::function<Result<std::vector<std::string>>(const ImagePipelineOptions&)> split;
};

// Sentences for warnings: which files neither split takes, and whether those that are read stand there in two
// divisions. taken: the files of the split. Empty, and nothing is searched, where a pattern or a single file is given.
std::vector<std::string> describe_other_files(const ImagePipelineOptions& options,
                                              const std::vector<std::string>& taken, const FileSearch& search);

}  // namespace xoe::data
