// The images in a folder and the folders within it, and the files there that are none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/listing.h"
#include "data/files/missing.h"
#include "xoe/status.h"

namespace xoe::data {

// How many files of a kind there are, and the first ones.
struct FilesOfAKind {
  static constexpr std::size_t kMostKept = 100;

  std::int64_t count = 0;
  std::vector<std::string> first;

  void add(std::string path);
  std::string text() const;  // of the first few: "photos/cat/1.webp, photos/cat/2.webp and 7 more"
};

// Files that no data set of images has in it.
struct OtherFiles {
  FilesOfAKind unreadable;  // images in formats that are not read, by their names
  FilesOfAKind hidden;      // images and folders whose names begin with a dot
  FilesOfAKind others;      // all else, such as readme.txt; hidden files that are no images are not worth a word
};

// Images in other formats than JPEG and PNG, by their names: .webp, .bmp, .tiff, ...
bool is_unreadable_image_name(std::string_view name) noexcept;

// The paths of the images below a folder, folder by folder in the order of their paths, and by name within each. Links
// are followed. Adds what else is there to `others`, and tells `missing` of folders that cannot be listed. `data_loss`:
// more than 32 folders within each other, as where a link leads back.
Result<std::vector<std::string>> find_images(const std::string& folder, MissingData& missing, OtherFiles& others);

// Adds the files right in a folder of classes, of which images are `unclassed`.
void find_other_files(const std::string& folder, const Listing& listing, FilesOfAKind& unclassed, OtherFiles& others);

}  // namespace xoe::data
