// All records of a set of TFRecord files, by number.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/records/file_index.h"
#include "data/records/record_file.h"
#include "xoe/status.h"

namespace xoe::data {

struct RecordIndexOptions {
  int threads = 1;
  Compression compression = Compression::kAuto;
  OnError on_error = OnError::kFail;  // kSkip: damaged framing is left out; only read() finds damaged data
  std::int64_t max_lost = 100;        // per file, with kSkip; more fail
  bool use_index_files = true;
};

// Thread safety: any number of threads may read at a time, each with a buffer of its own.
class RecordIndex {
 public:
  // Uses the index beside a file where there is one that fits; else reads every header of a plain file and all of a
  // compressed one. Opens `threads` files at a time.
  static Result<std::shared_ptr<const RecordIndex>> open(const std::vector<std::string>& paths,
                                                         const RecordIndexOptions& options);

  std::int64_t records() const noexcept { return first_.back(); }
  std::size_t files() const noexcept { return files_.size(); }
  // The records of one file are first(file) to first(file + 1) - 1.
  std::int64_t first(std::size_t file) const noexcept { return first_[file]; }

  const std::string& path(std::size_t file) const noexcept { return files_[file].path; }
  std::uint64_t bytes(std::size_t file) const noexcept { return files_[file].bytes; }
  // Whether a file has neither records nor damaged places.
  bool empty(std::size_t file) const noexcept {
    return files_[file].index.records.empty() && files_[file].index.lost.empty();
  }

  bool compressed() const noexcept;  // any of the files
  // Ranges of damaged framing (kSkip).
  std::int64_t lost() const noexcept { return lost_; }
  const std::vector<LostRange>& lost_in(std::size_t file) const noexcept { return files_[file].index.lost; }

  // REQUIRES: 0 <= record < records(). In a compressed file a read decompresses about a MiB.
  Result<std::string_view> read(std::int64_t record, std::string& buffer) const;
  std::string name(std::int64_t record) const;
  const std::string& file_of(std::int64_t record) const { return locate(record).file.path; }
  std::int64_t number_of(std::int64_t record) const { return locate(record).number; }  // within its file

 private:
  struct IndexedFile {
    std::string path;
    std::uint64_t bytes = 0;
    std::shared_ptr<const OpenFile> handle;  // null where there are too many files to keep all open
    FileIndex index;
  };
  struct Location {
    const IndexedFile& file;
    std::int64_t number;

    const RecordExtent& extent() const { return file.index.records[static_cast<std::size_t>(number)]; }
  };

  static Result<IndexedFile> open_file(const std::string& path, const RecordIndexOptions& options, bool keep_open);
  Location locate(std::int64_t record) const;

  std::vector<IndexedFile> files_;
  std::vector<std::int64_t> first_;
  std::int64_t lost_ = 0;
};

}  // namespace xoe::data
