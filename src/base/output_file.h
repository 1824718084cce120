// Files that appear whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe {

// Writes beside `path` first, under a hidden name that no other process of any host uses; finish() flushes to the
// device and renames. Without finish() nothing stays. Others may write the same path at the same time: each has a file
// of its own, and the last to finish is the one that is there.
class OutputFile {
 public:
  static Result<OutputFile> create(std::string path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  const std::string& path() const noexcept { return path_; }

  // `resource_exhausted`: the disk is full, or a quota or limit is reached. Gathers small pieces.
  Status write(std::string_view bytes);
  // Over what was written first, for headers that count what follows them.
  Status overwrite_start(std::string_view bytes);
  // Flushes to the device and closes: finish(), which may follow later, can hardly fail then. Nothing else may follow.
  Status complete();
  Status finish();
  // finish() without waiting for the device: after a power cut the file may be there without its content. For many
  // small files that are flushed together.
  Status finish_unflushed();

 private:
  OutputFile(std::string path, std::string temporary, Fd fd);
  Status flush();

  std::string path_;
  std::string temporary_;  // empty once there is nothing to remove
  Fd fd_;
  std::string buffer_;
};

// Removes the unfinished file `path` of OutputFile, if nobody writes it any more: what a killed process left. Others
// are locked for as long as they are written; where the file system has no locks, they stay.
void remove_unfinished(const std::string& path);

// Writes a small file in the same way.
Status write_file(const std::string& path, std::string_view content);

}  // namespace xoe
