// Writes TFRecord files that appear whole or not at all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::data {

// Writes beside `path` first; finish() flushes to the device and renames. Without finish() nothing stays.
class RecordWriter {
 public:
  static Result<RecordWriter> create(std::string path);
  RecordWriter(RecordWriter&& other) noexcept;
  RecordWriter& operator=(RecordWriter&&) = delete;
  ~RecordWriter();

  // `resource_exhausted`: the disk is full, or a quota or limit is reached.
  Status write(std::string_view data);
  // Flushes to the device and closes: finish(), which may follow later, can hardly fail then. Nothing else may follow.
  Status complete();
  Status finish();

  std::int64_t records() const noexcept { return records_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  RecordWriter(std::string path, std::string temporary, Fd fd);
  Status flush();

  std::string path_;
  std::string temporary_;  // empty once there is nothing to remove
  Fd fd_;
  std::string buffer_;
  std::int64_t records_ = 0;
  std::uint64_t bytes_ = 0;
};

// Writes a small file in the same way.
Status write_file(const std::string& path, std::string_view content);

}  // namespace xoe::data
