#include <algorithm>
#include <array>

#include "base/error.h"
#include "data/files/listing.h"
#include "data/source/file_images.h"
#include "data/source/formats.h"

namespace xoe::data {
namespace {

// The folder of the split; empty: there is none.
std::string split_folder(const std::string& directory, bool training) {
  static constexpr std::array kTrain = {"train", "training", "", ""};
  static constexpr std::array kValidation = {"val", "validation", "valid", "test"};
  for (const std::string_view name : training ? kTrain : kValidation)
    if (!name.empty() && is_directory(fmt::format("{}/{}", directory, name)))
      return fmt::format("{}/{}", directory, name);
  return {};
}

// Whether one of the folders holds an image; of data sets of many classes the first few are looked into.
bool has_image_folder(const std::string& directory, const std::vector<std::string>& folders, int depth) {
  constexpr std::size_t kMaxFolders = 8;
  for (std::size_t i = 0; i < std::min(folders.size(), kMaxFolders); ++i) {
    const std::string folder = directory + "/" + folders[i];
    const auto inside = list_directory(folder);
    if (!inside) continue;
    if (std::any_of(inside->files.begin(), inside->files.end(), is_image_name)) return true;
    if (depth > 0 && has_image_folder(folder, inside->folders, depth - 1)) return true;
  }
  return false;
}

bool is_image_folder(const std::string& path, bool, const Listing& contents) {
  return has_image_folder(path, contents.folders, 1);
}

Result<SourcePtr> open_image_folder(const ImagePipelineOptions& options, BadRecords*) {
  std::string root = split_folder(options.directory, options.training);
  const std::string train = split_folder(options.directory, true);
  if (root.empty() && (!options.training || !split_folder(options.directory, false).empty()))
    return failure(Code::kUnavailable, "{}: no folder named {}", options.directory,
                   options.training ? "train" : "val, validation, valid or test");
  if (root.empty()) root = options.directory;
  XOE_ASSIGN(const Listing here, list_directory(root));
  // A class has the same number in both splits, also where one of them lacks it.
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

}  // namespace

constinit const ImageFormat kFolderFormat = {SourceFormat::kFolder, "folder", is_image_folder, open_image_folder};

}  // namespace xoe::data
