#include "data/files/image_tree.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "data/files/encoding.h"

namespace xoe::data {
namespace {

constexpr int kMaxDepth = 32;

// Notes a file that is no image. `name` is its name.
void add_other(const std::string& folder, const std::string& name, OtherFiles& others) {
  const std::string path = folder + "/" + name;
  (is_unreadable_image_name(name) ? others.unreadable : others.others).add(path);
}

// Hidden images, and hidden folders.
void add_hidden(const std::string& folder, const Listing& listing, OtherFiles& others) {
  for (const std::string& name : listing.hidden)
    if (is_image_name(name) || is_unreadable_image_name(name) || is_directory(folder + "/" + name))
      others.hidden.add(folder + "/" + name);
}

using Folder = std::pair<std::string, Listing>;  // a path and what is there

Status add_folders(const std::string& path, int depth, MissingData& missing, std::vector<Folder>& folders) {
  if (depth > kMaxDepth)
    return failure(Code::kDataLoss, "{}: more than {} folders within each other, as where a link leads back", path,
                   kMaxDepth);
  auto listed = list_directory(path);
  if (!listed) {
    missing.add(path, listed.error().message().substr(path.size() + 2));  // its message begins with "PATH: "
    return {};
  }
  Listing listing = std::move(*listed);
  // A folder with the name of an image counts as one that is missing.
  const auto named = std::partition(listing.folders.begin(), listing.folders.end(),
                                    [](const std::string& name) { return !is_image_name(name); });
  std::move(named, listing.folders.end(), std::back_inserter(listing.files));
  listing.folders.erase(named, listing.folders.end());
  const std::vector<std::string> inner = listing.folders;
  folders.emplace_back(path, std::move(listing));
  for (const std::string& name : inner) XOE_TRY(add_folders(path + "/" + name, depth + 1, missing, folders));
  return {};
}

}  // namespace

void FilesOfAKind::add(std::string path) {
  if (++count <= static_cast<std::int64_t>(kMostKept)) first.push_back(std::move(path));
}

std::string FilesOfAKind::text() const {
  constexpr std::ptrdiff_t kMostNamed = 5;
  const auto named = std::min<std::ptrdiff_t>(std::ssize(first), kMostNamed);
  std::string text = fmt::format("{}", fmt::join(first.begin(), first.begin() + named, ", "));
  if (count > named) text += fmt::format(" and {} more", count - named);
  return text;
}

bool is_unreadable_image_name(std::string_view name) noexcept {
  static constexpr std::string_view kFormats[] = {".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif", ".heic", ".heif",
                                                  ".jp2",  ".j2k", ".jxl", ".ppm", ".pgm",  ".pbm",  ".pnm",  ".jpe",
                                                  ".jfif", ".tga", ".ico", ".dcm", ".exr",  ".hdr"};
  return std::ranges::any_of(kFormats, [name](std::string_view format) { return has_extension(name, format); });
}

Result<std::vector<std::string>> find_images(const std::string& folder, MissingData& missing, OtherFiles& others) {
  std::vector<Folder> folders;
  XOE_TRY(add_folders(folder, 1, missing, folders));
  std::ranges::sort(folders, {}, &Folder::first);
  std::vector<std::string> images;
  for (const auto& [path, listing] : folders) {
    for (const std::string& name : listing.files)
      if (is_image_name(name))
        images.push_back(path + "/" + name);
      else
        add_other(path, name, others);
    add_hidden(path, listing, others);
  }
  return images;
}

void find_other_files(const std::string& folder, const Listing& listing, FilesOfAKind& unclassed, OtherFiles& others) {
  for (const std::string& name : listing.files)
    if (is_image_name(name) || is_unreadable_image_name(name))
      unclassed.add(folder + "/" + name);
    else
      others.others.add(folder + "/" + name);
  add_hidden(folder, listing, others);
}

}  // namespace xoe::data
