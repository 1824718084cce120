#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "data/files/listing.h"
#include "data/source/file_images.h"
#include "data/source/formats.h"

namespace xoe::data {
namespace {

// The folder of the split, as far as it `is_right`; empty: there is none.
std::string split_folder(const std::string& directory, bool training,
                         bool (*is_right)(const std::string& path) = is_directory) {
  static constexpr std::array kTrain = {"train", "training", "", ""};
  static constexpr std::array kValidation = {"val", "validation", "valid", "test"};
  for (const std::string_view name : training ? kTrain : kValidation)
    if (!name.empty() && is_right(fmt::format("{}/{}", directory, name))) return fmt::format("{}/{}", directory, name);
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

bool has_folder_split(const ImagePipelineOptions& options) {
  return options.training || !split_folder(options.directory, false, is_there).empty();
}

// A split or a class may be behind a link that leads nowhere. Files, which belong to no class, are left alone.
void find_missing_folder(const std::string& path, MissingData& missing) {
  std::error_code ignored;
  if (path.empty() || std::filesystem::is_regular_file(path, ignored)) return;
  if (const auto size = size_of_file(path); !size) missing.add(path, size.error().message());
}

Result<SourcePtr> open_image_folder(const ImagePipelineOptions& options, MissingData& missing, BadRecords*) {
  std::string root = split_folder(options.directory, options.training);
  const std::string train = split_folder(options.directory, true);
  if (root.empty()) {
    find_missing_folder(split_folder(options.directory, options.training, is_there), missing);
    XOE_TRY(missing.check(options.directory));
  }
  if (root.empty() && (!options.training || !split_folder(options.directory, false).empty()))
    return failure(Code::kUnavailable, "{}: no folder named {}", options.directory,
                   options.training ? "train" : "val, validation, valid or test");
  if (root.empty()) root = options.directory;
  XOE_ASSIGN(const Listing here, list_directory(root));
  // A class has the same number in both splits, also where one of them lacks it.
  XOE_ASSIGN(const Listing classes, list_directory(train.empty() ? root : train));

  for (const std::string& name : here.files) find_missing_folder(root + "/" + name, missing);
  FileImages::Content content;
  content.root = options.directory;
  content.classes = static_cast<int>(classes.folders.size());
  content.class_names = classes.folders;
  for (const std::string& folder : here.folders) {
    const auto label = std::lower_bound(classes.folders.begin(), classes.folders.end(), folder);
    if (label == classes.folders.end() || *label != folder)
      return failure(Code::kInvalidArgument, "{}/{}: no class of that name in {}", root, folder, train);
    XOE_ASSIGN(Listing images, list_directory(root + "/" + folder));
    // A folder with the name of an image is told of, too.
    images.files.insert(images.files.end(), images.folders.begin(), images.folders.end());
    const std::size_t before = content.paths.size();
    for (const std::string& name : images.files) {
      if (!is_image_name(name)) continue;
      content.paths.push_back(fmt::format("{}/{}/{}", root, folder, name));
      content.labels.push_back(label - classes.folders.begin());
    }
    if (content.paths.size() == before) missing.add(root + "/" + folder, "a class without images");
  }
  keep_files(content, options.threads, missing);
  XOE_TRY(missing.check(options.directory));
  if (content.paths.empty())
    return failure(Code::kUnavailable, "{}: no .jpg, .jpeg or .png file in its {} folders", root, here.folders.size());
  return std::make_unique<FileImages>(std::move(content));
}

}  // namespace

constinit const ImageFormat kFolderFormat = {SourceFormat::kFolder, "folder", is_image_folder, has_folder_split,
                                             open_image_folder};

}  // namespace xoe::data
