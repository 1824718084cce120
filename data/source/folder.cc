#include <algorithm>
#include <array>
#include <cctype>
#include <deque>
#include <filesystem>
#include <iterator>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/files/encoding.h"
#include "data/files/image_tree.h"
#include "data/files/listing.h"
#include "data/source/file_images.h"
#include "data/source/formats.h"

namespace xoe::data {
namespace {

// The folders of the split for which `is_right` holds; each name as "val", else "Val", else "VAL".
std::vector<std::string> split_folders(const std::string& directory, bool training,
                                       bool (*is_right)(const std::string& path) = is_directory) {
  static constexpr std::array kTrain = {"train", "training", "", ""};
  static constexpr std::array kValidation = {"val", "validation", "valid", "test"};
  std::vector<std::string> found;
  for (std::string name : training ? kTrain : kValidation) {
    if (name.empty()) continue;
    for (std::size_t capitals : {std::size_t{0}, std::size_t{1}, name.size()}) {
      std::transform(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(capitals), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      if (std::string path = fmt::format("{}/{}", directory, name); is_right(path)) {
        found.push_back(std::move(path));
        break;
      }
    }
  }
  return found;
}

// Empty: there is none.
std::string split_folder(const std::string& directory, bool training,
                         bool (*is_right)(const std::string& path) = is_directory) {
  const auto found = split_folders(directory, training, is_right);
  return found.empty() ? std::string() : found.front();
}

// Whether a folder somewhere below the directory holds an image. Folders near the top are looked into first, and the
// look ends with the first image, so that only empty ones cost time; of those, and of links that lead back, there are
// at most kMostFolders.
bool has_image_below(const std::string& directory, const std::vector<std::string>& folders) {
  constexpr std::size_t kMostFolders = 30'000;
  std::deque<std::string> waiting;
  const auto add = [&waiting](const std::string& above, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (waiting.size() == kMostFolders) return;
      waiting.push_back(above + "/" + name);
    }
  };
  add(directory, folders);
  for (std::size_t looked = 0; !waiting.empty() && looked < kMostFolders; ++looked) {
    const std::string folder = std::move(waiting.front());
    waiting.pop_front();
    const auto inside = list_directory(folder);
    if (!inside) continue;
    if (std::ranges::any_of(inside->files, [](const std::string& name) {
          return is_image_name(name) || is_unreadable_image_name(name);
        }))
      return true;
    add(folder, inside->folders);
  }
  return false;
}

// A directory of classes. Where a disk is mounted there, its file system has a folder lost+found, which only root may
// read and which is no class unless it holds images.
Result<Listing> list_classes(const std::string& directory) {
  XOE_ASSIGN(Listing listing, list_directory(directory));
  std::erase_if(listing.folders, [&directory](const std::string& name) {
    return name == "lost+found" && !has_image_below(directory, {name});
  });
  return listing;
}

bool is_image_folder(const std::string& path, bool, const Listing& contents) {
  return has_image_below(path, contents.folders);
}

// Images in other formats are damage: they are named, or left out where that is allowed.
Status leave_out_unreadable(const ImagePipelineOptions& options, const FilesOfAKind& files, BadRecords* bad) {
  if (files.count == 0) return {};
  if (bad != nullptr) {
    for (const std::string& path : files.first)
      bad->add(fmt::format("{}: not a {}, which alone are read", path, encoding_names("or")));
    bad->add_unnamed(files.count - std::ssize(files.first));
  }
  if (files.count <= options.max_bad) return {};
  return failure(Code::kDataLoss,
                 "{}: {} in formats that are not read, which are all but {}: {}; convert them, remove them, "
                 "or go on without them by the option max_bad={} (--max-bad {})",
                 options.directory, counted(files.count, "image"), encoding_names("and"), files.text(), files.count,
                 files.count);
}

// A folder with a single folder of folders is more likely one level too high than of one class.
Status check_level(const std::string& root, const std::vector<std::string>& folders,
                   const FileImages::Content& content) {
  if (folders.size() != 1 || content.paths.empty()) return {};
  const std::string folder = fmt::format("{}/{}/", root, folders[0]);
  const auto is_direct = [&](const std::string& path) { return path.find('/', folder.size()) == std::string::npos; };
  if (std::ranges::any_of(content.paths, is_direct)) return {};
  return failure(Code::kInvalidArgument,
                 "{}: a single class, {}, all of whose images lie in folders of their own, as in {}; "
                 "if those are the classes, open {}/{}",
                 root, folders[0], content.paths.front(), root, folders[0]);
}

void describe(const std::string& root, const FilesOfAKind& unclassed, const OtherFiles& others,
              FileImages::Content& content) {
  const auto say = [&root](std::vector<std::string>& to, const FilesOfAKind& files, std::string_view what,
                           std::string_view fate) {
    if (files.count > 0)
      to.push_back(fmt::format("{}: {} {}: {}", root, counted(files.count, what), fate, files.text()));
  };
  say(content.warnings, others.hidden, "hidden file", "left out");
  say(content.warnings, unclassed, "image", "in no class's folder, left out");
  say(content.remarks, others.others, "file", "left alone, being no image");
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

Result<SourcePtr> open_image_folder(const ImagePipelineOptions& options, MissingData& missing, BadRecords* bad) {
  XOE_TRY(check_no_label_offset(options, "folders of classes"));
  std::string root = split_folder(options.directory, options.training);
  const std::string train = split_folder(options.directory, true);
  if (root.empty()) {
    find_missing_folder(split_folder(options.directory, options.training, is_there), missing);
    XOE_TRY(missing.check(options.directory));
  }
  if (root.empty() && (!options.training || !split_folder(options.directory, false).empty()))
    return failure(Code::kUnavailable, "{}: no folder named {}{}", options.directory,
                   options.training ? "train" : "val, validation, valid or test",
                   options.training ? ", though " + split_folder(options.directory, false) +
                                          " is there, which holds images for evaluation by its name"
                                    : std::string());
  if (root.empty()) root = options.directory;
  XOE_ASSIGN(const Listing here, list_classes(root));
  // A class has the same number in both splits, also where one of them lacks it.
  XOE_ASSIGN(const Listing classes, list_classes(train.empty() ? root : train));

  for (const std::string& name : here.files) find_missing_folder(root + "/" + name, missing);
  OtherFiles others;
  FilesOfAKind unclassed;
  find_other_files(root, here, unclassed, others);
  FileImages::Content content;
  content.root = options.directory;
  content.classes = static_cast<int>(classes.folders.size());
  content.class_names = classes.folders;
  for (const std::string& folder : here.folders) {
    const auto label = std::lower_bound(classes.folders.begin(), classes.folders.end(), folder);
    if (label == classes.folders.end() || *label != folder)
      return failure(Code::kInvalidArgument, "{}/{}: no class of that name in {}", root, folder, train);
    const std::int64_t missing_before = missing.count();
    XOE_ASSIGN(auto images, find_images(root + "/" + folder, missing, others));
    if (images.empty() && missing.count() == missing_before) missing.add(root + "/" + folder, "a class without images");
    content.labels.insert(content.labels.end(), images.size(), label - classes.folders.begin());
    std::ranges::move(images, std::back_inserter(content.paths));
  }
  const Status readable = leave_out_unreadable(options, others.unreadable, bad);
  keep_files(content, options.threads, missing);
  XOE_TRY(both(readable, missing.check(options.directory)));
  XOE_TRY(check_level(root, here.folders, content));
  content.lost = others.unreadable.count;
  describe(root, unclassed, others, content);
  if (const auto splits = split_folders(options.directory, options.training); splits.size() > 1)
    content.remarks.push_back(fmt::format("{}: images of {}; not of {}", options.directory, splits[0],
                                          fmt::join(splits.begin() + 1, splits.end(), ", ")));
  if (content.paths.empty())
    return failure(Code::kUnavailable, "{}: no {} file in its {} folders", root, encoding_extensions("or"),
                   here.folders.size());
  return std::make_unique<FileImages>(std::move(content));
}

}  // namespace

constinit const SourceLayout kFolderFormat = {SourceFormat::kFolder, "folder", is_image_folder, has_folder_split,
                                              open_image_folder};

}  // namespace xoe::data
