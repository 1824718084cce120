#include <algorithm>

#include "base/error.h"
#include "data/files/listing.h"
#include "data/source/formats.h"

namespace xoe::data {
namespace {

bool is_idx_name(std::string_view name) {
  return name.find("images") != std::string_view::npos && name.find("idx3") != std::string_view::npos;
}

// Whether one of the folders holds an image; of data sets of many classes, the first ones tell.
bool has_image_folder(const std::string& directory, const std::vector<std::string>& folders, int depth) {
  constexpr std::size_t kFolders = 8;
  for (std::size_t i = 0; i < std::min(folders.size(), kFolders); ++i) {
    const std::string folder = directory + "/" + folders[i];
    const auto inside = list_directory(folder);
    if (!inside) continue;
    if (std::any_of(inside->files.begin(), inside->files.end(), is_image_name)) return true;
    if (depth > 0 && has_image_folder(folder, inside->folders, depth - 1)) return true;
  }
  return false;
}

SourceFormat format_of_file(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (has_extension(name, ".tar")) return SourceFormat::kTar;
  return is_idx_name(name) ? SourceFormat::kIdx : SourceFormat::kTfRecord;
}

}  // namespace

std::string_view source_format_name(SourceFormat format) noexcept {
  switch (format) {
    case SourceFormat::kAuto: return "auto";
    case SourceFormat::kTfRecord: return "tfrecord";
    case SourceFormat::kFolder: return "folder";
    case SourceFormat::kNihChest: return "nih-chest";
    case SourceFormat::kIdx: return "idx";
    case SourceFormat::kTar: return "tar";
  }
  return "?";
}

Result<SourceFormat> detect_source_format(const std::string& directory) {
  if (!is_directory(directory)) return format_of_file(directory);
  XOE_ASSIGN(const Listing listing, list_directory(directory));
  const auto any = [&listing](auto fits) { return std::any_of(listing.files.begin(), listing.files.end(), fits); };
  if (any([](const std::string& name) { return name.starts_with("Data_Entry_2017") && has_extension(name, ".csv"); }))
    return SourceFormat::kNihChest;
  if (any(is_idx_name)) return SourceFormat::kIdx;
  if (any([](const std::string& name) { return has_extension(name, ".tar"); })) return SourceFormat::kTar;
  if (any([](const std::string& name) {
        return name.starts_with("train-") || name.starts_with("validation-") || name.starts_with("val-") ||
               name.find(".tfrecord") != std::string::npos;
      }))
    return SourceFormat::kTfRecord;
  if (has_image_folder(directory, listing.folders, 1)) return SourceFormat::kFolder;
  return failure(Code::kUnavailable,
                 "{}: no data set of images that is known: no train-* record files, .tar archives, idx files, "
                 "Data_Entry_2017*.csv or folders of .jpg, .jpeg and .png files",
                 directory);
}

Result<SourcePtr> open_image_source(const SourceOptions& options) {
  SourceFormat format = options.format;
  if (format == SourceFormat::kAuto && !options.pattern.empty())
    format = options.pattern.ends_with(".tar") ? SourceFormat::kTar : SourceFormat::kTfRecord;
  if (format == SourceFormat::kAuto) {
    XOE_ASSIGN(format, detect_source_format(options.directory));
  }
  switch (format) {
    case SourceFormat::kFolder: return open_image_folder(options);
    case SourceFormat::kNihChest: return open_nih_chest(options);
    case SourceFormat::kIdx: return open_idx_images(options);
    case SourceFormat::kTar: return open_tar_images(options);
    default: return open_tfrecord_images(options);
  }
}

}  // namespace xoe::data
