// The files of a run: read whole, written line by line.
#pragma once

#include <string>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::train {

// The whole of a regular file.
Result<std::string> read_file(const std::string& path);

// Creates the folder and those above it; checks that files can be created there.
Status make_folder(const std::string& path);

// A file of lines that grows; each line is one write.
class LineFile {
 public:
  // append == false: truncates the file.
  static Result<LineFile> open(const std::string& path, bool append);
  Status write(std::string line);

 private:
  LineFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;
};

}  // namespace xoe::train
