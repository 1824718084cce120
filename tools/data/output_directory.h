// Directories that appear whole or not at all.
#pragma once

#include <string>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::data {

// Files are written into path(), beside the place where finish() puts them. Without finish() nothing stays; what a
// killed process left goes when the next one makes the same.
class OutputDirectory {
 public:
  // Also makes the directories above. `invalid_argument`: the place is taken, by more than an empty directory.
  static Result<OutputDirectory> create(const std::string& place);
  OutputDirectory(OutputDirectory&& other) noexcept;
  OutputDirectory& operator=(OutputDirectory&&) = delete;
  ~OutputDirectory();

  const std::string& path() const noexcept { return path_; }
  // Flushes to the device and renames.
  Status finish();

 private:
  OutputDirectory(std::string place, std::string around, Fd lock);

  std::string place_;
  std::string around_;  // holds path_; empty once there is nothing to remove
  std::string path_;
  Fd lock_;  // of around_: it is being written; invalid where there are no locks
};

}  // namespace xoe::data
