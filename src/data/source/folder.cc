#include <algorithm>
#include <array>

#include "base/error.h"
#include "data/files/listing.h"
#include "data/source/file_images.h"
#include "data/source/formats.h"

namespace xoe::data {
namespace {

// The folder of a split, or an empty text where there is none.
std::string split_folder(const std::string& directory, Split split) {
  static constexpr std::array kTrain = {"train", "training", "", ""};
  static constexpr std::array kValidation = {"val", "validation", "valid", "test"};
  for (const std::string_view name : split == Split::kTrain ? kTrain : kValidation)
    if (!name.empty() && is_directory(fmt::format("{}/{}", directory, name)))
      return fmt::format("{}/{}", directory, name);
  return {};
}

}  // namespace

Result<SourcePtr> open_image_folder(const SourceOptions& options) {
  std::string root = split_folder(options.directory, options.split);
  const std::string train = split_folder(options.directory, Split::kTrain);
  if (root.empty() &&
      (options.split == Split::kValidation || !split_folder(options.directory, Split::kValidation).empty()))
    return failure(Code::kUnavailable, "{}: no folder named {}", options.directory,
                   options.split == Split::kTrain ? "train" : "val, validation, valid or test");
  if (root.empty()) root = options.directory;
  XOE_ASSIGN(const Listing here, list_directory(root));
  // The same class has the same number in both splits, also where one lacks it.
  XOE_ASSIGN(const Listing classes, list_directory(train.empty() ? root : train));

  FileImages::Content content;
  content.classes = static_cast<int>(classes.folders.size());
  content.class_names = classes.folders;
  for (const std::string& folder : here.folders) {
    const auto label = std::lower_bound(classes.folders.begin(), classes.folders.end(), folder);
    if (label == classes.folders.end() || *label != folder)
      return failure(Code::kInvalidArgument, "{}/{}: no class of that name in {}", root, folder, train);
    XOE_ASSIGN(const Listing images, list_directory(root + "/" + folder));
    for (const std::string& name : images.files) {
      if (!is_image_name(name)) continue;
      content.paths.push_back(fmt::format("{}/{}/{}", root, folder, name));
      content.labels.push_back(label - classes.folders.begin());
    }
  }
  if (content.paths.empty())
    return failure(Code::kUnavailable, "{}: no .jpg, .jpeg or .png file in its {} folders", root, here.folders.size());
  return std::make_unique<FileImages>(std::move(content));
}

}  // namespace xoe::data
