#include "data/source/other_files.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/files/image_tree.h"
#include "data/files/listing.h"
#include "data/files/missing.h"

namespace xoe::data {

std::vector<std::string> describe_other_files(const ImagePipelineOptions& options,
                                              const std::vector<std::string>& taken, const FileSearch& search) {
  if (!options.pattern.empty() || !is_directory(options.directory)) return {};
  ImagePipelineOptions other = options;
  other.training = !options.training;
  const auto others = search.split(other).value_or(std::vector<std::string>());
  std::vector<std::string> sentences;
  FilesOfAKind left;
  for (const std::string& path : without(without(search.candidates(options.directory), taken), others))
    if (const std::string name = std::filesystem::path(path).filename(); !matches(name, "*test*")) left.add(name);
  if (left.count > 0)
    sentences.push_back(
        fmt::format("{}: {} left out, whose names are not like those of the split's other files: {}; the option "
                    "pattern (--pattern) chooses files",
                    options.directory, counted(left.count, "file"), left.text()));
  if (std::string two = describe_two_divisions(taken); !two.empty())
    sentences.push_back(
        fmt::format("{}: {}; where one is the other, in other files, each image counts twice: the option "
                    "pattern (--pattern) chooses files",
                    options.directory, two));
  return sentences;
}

}  // namespace xoe::data
