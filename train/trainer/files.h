// The files of a run: read whole, written piece by piece.
#pragma once

#include <string>
#include <string_view>

#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::train {

// Absolute, without "." and "..", and without a slash at the end; links are not followed. Empty for an empty path.
std::string normal_path(const std::string& path);

// The whole of a regular file.
Result<std::string> read_file(const std::string& path);

// Creates the folder and those above it; checks that files can be created there.
Status make_folder(const std::string& path);

// A file that grows, by a line or a record at a time, each of which is one write.
class GrowingFile {
 public:
  // append == false: truncates the file.
  static Result<GrowingFile> open(const std::string& path, bool append);
  // All of it is written, or nothing. `resource_exhausted`: the disk is full, or a quota or limit is reached.
  Status append(std::string_view bytes);

 private:
  GrowingFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;
};

}  // namespace xoe::train
