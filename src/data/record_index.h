// All records of a set of TFRecord files, by number, and the stage that lists them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/record_file.h"
#include "xoe/data/stage.h"

namespace xoe::data {

// Regular files of a directory whose names match a pattern with * and ?, sorted; hidden ones never do. `unavailable`
// when there is none.
Result<std::vector<std::string>> match_files(const std::string& directory, const std::string& pattern);

// Thread safety: any number of threads may read at a time, each with a buffer of its own.
class RecordIndex {
 public:
  // Reads every header of every file, several files at a time.
  static Result<std::shared_ptr<const RecordIndex>> open(const std::vector<std::string>& paths, int threads);

  std::int64_t records() const noexcept { return first_.back(); }
  std::size_t files() const noexcept { return parts_.size(); }
  // The records of one file are first(file) to first(file + 1) - 1.
  std::int64_t first(std::size_t file) const noexcept { return first_[file]; }

  // REQUIRES: 0 <= record < records().
  Result<std::string_view> read(std::int64_t record, std::string& buffer) const;
  std::string name(std::int64_t record) const;

 private:
  struct Part {
    std::string path;
    std::optional<RecordFile> file;  // empty where there are too many files to keep all open
    std::vector<RecordPlace> places;
  };
  struct Where {
    const Part& part;
    std::int64_t number;

    const RecordPlace& place() const { return part.places[static_cast<std::size_t>(number)]; }
  };

  static Result<Part> open_part(const std::string& path, bool keep_open);
  Where where(std::int64_t record) const;

  std::vector<Part> parts_;
  std::vector<std::int64_t> first_;
};

struct RecordRef {
  std::int64_t epoch = 0;
  std::int64_t record = 0;

  friend bool operator==(const RecordRef&, const RecordRef&) = default;
};

// Every record once an epoch, file by file; with `shuffle_files` the files come in an order drawn by (seed, epoch).
StagePtr<RecordRef> list_records(std::shared_ptr<const RecordIndex> index, bool shuffle_files, std::uint64_t seed);

}  // namespace xoe::data
