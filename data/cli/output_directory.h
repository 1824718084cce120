// Directories that appear whole or not at all.
#pragma once

#include <string>

#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::data {

// Files are written into path(), a hidden directory that finish() moves to its target. Without finish() it is removed;
// one that a killed process left is removed by the next process with the same target.
class OutputDirectory {
 public:
  // Also creates the parent directories. `invalid_argument`: the target exists and is not an empty directory.
  static Result<OutputDirectory> create(const std::string& target);
  OutputDirectory(OutputDirectory&& other) noexcept;
  OutputDirectory& operator=(OutputDirectory&&) = delete;
  ~OutputDirectory();

  const std::string& path() const noexcept { return path_; }
  // Flushes to the device and renames.
  Status finish();

 private:
  OutputDirectory(std::string target, std::string parent, Fd lock);

  std::string target_;
  std::string parent_;  // of path_; empty once there is nothing to remove
  std::string path_;
  Fd lock_;  // of parent_, while it is being written; invalid where the file system has no locks
};

}  // namespace xoe::data
