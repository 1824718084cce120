// Files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe {

inline constexpr std::size_t kMostBytesOfName = 255;  // of a file, without its folder, as Linux's file systems have it

// Whether the file system refuses the path because it, or a name in it, is too long.
bool is_name_too_long(const std::string& path);

// Writes to a file beside `path`, under a hidden name that no other process of any host uses; finish() flushes it to
// the device and renames it. Without finish() it is removed. Several writers of one path do not disturb each other: the
// last to finish wins.
class OutputFile {
 public:
  static Result<OutputFile> create(std::string path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  const std::string& path() const noexcept { return path_; }

  // Buffered. `resource_exhausted`: the disk is full, or a quota or limit is reached.
  Status write(std::string_view bytes);
  // Flushes to the device and closes, so that a later finish() can hardly fail. Only finish() may follow.
  Status complete();
  Status finish();
  // finish() under a name that is new: false, and nothing is left, where a file of that name exists by now.
  Result<bool> finish_new();
  // finish() without waiting for the device: after a power cut the file may exist without its content. For many small
  // files that are flushed together.
  Status finish_unflushed();

 private:
  OutputFile(std::string path, std::string temporary, Fd fd);
  Status flush();

  std::string path_;
  std::string temporary_;  // empty once there is nothing to remove
  Fd fd_;
  std::string buffer_;
};

// Removes the unfinished file `path` that a killed process's OutputFile left. A file that is still being written is
// locked, and stays; so does every file where the file system has no locks.
void remove_unfinished(const std::string& path);

// Creates a file that only this user can access, whole or not at all. False: the file exists, and does not change.
Result<bool> create_private_file(const std::string& path, std::string_view content);

// Writes a whole file in the way of OutputFile.
Status write_file(const std::string& path, std::string_view content);

}  // namespace xoe
