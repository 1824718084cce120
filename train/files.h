// Files that are whole or not there.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::train {

// Writes a new file beside `path`, makes it durable and renames it over `path`. On an error nothing is left of the new
// file, and the old one is untouched. Errors name `path` and, on a full disk, say what to do.
Status write_file(const std::string& path, std::span<const std::string_view> pieces);
Status write_file(const std::string& path, std::string_view content);
Result<std::string> read_file(const std::string& path);

// Makes the folder and those above it; checks that files can be made there.
Status make_folder(const std::string& path);

// A file of lines that grows; each line is written at once.
class LineFile {
 public:
  // append == false: begins anew.
  static Result<LineFile> open(const std::string& path, bool append);
  Status write(std::string line);

 private:
  LineFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;
};

}  // namespace xoe::train
