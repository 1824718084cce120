// Writes TFRecord files that appear whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "xoe/data/records.h"
#include "xoe/status.h"

namespace xoe::data {

// `data` as a record of a plain file, with its length and both CRCs: for files that grow, as logs do. A plain TFRecord
// file is one such record behind the other.
std::string framed_record(std::string_view data);

// Writes beside `path` first, under a hidden name of its own; finish() flushes to the device and renames, over what is
// there. Without finish() nothing stays. Any bytes are a record; FeaturesBuilder (example.h) makes tf.Examples. After
// an error the file cannot be finished. Thread safety: one thread at a time.
class RecordWriter {
 public:
  // `level` 1 (fast) to 9 (small) is for compressed files; -1 is zlib's own choice. kAuto is kNone. `unavailable`: the
  // directory is not there or cannot be written to.
  static Result<RecordWriter> create(std::string path, Compression compression = Compression::kNone, int level = -1);
  RecordWriter(RecordWriter&& other) noexcept;
  RecordWriter& operator=(RecordWriter&&) = delete;
  ~RecordWriter();

  // `resource_exhausted`: the disk is full, or a quota or limit is reached.
  Status write(std::string_view data);
  // Flushes to the device and closes: finish(), which may follow later, can hardly fail then. Nothing else may follow.
  Status complete();
  Status finish();

  std::int64_t records() const noexcept;
  std::uint64_t bytes() const noexcept;  // before compression

 private:
  struct Impl;
  explicit RecordWriter(std::unique_ptr<Impl> impl) noexcept;

  std::unique_ptr<Impl> impl_;
};

}  // namespace xoe::data
