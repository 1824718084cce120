// Data that should be there and are not: links that lead nowhere, folders and pipes in the place of files, files
// without content, shards that are absent.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/data/records.h"
#include "xoe/status.h"

namespace xoe::data {

// Ends a message about something that is missing.
inline constexpr std::string_view kMayGoOn =
    "put back what is missing, or go on without it by the option allow_missing (--allow-missing)";

// Ends a message about an image that cannot be read.
inline constexpr std::string_view kMayLeaveOut =
    "go on without up to N bad images by the option max_bad=N (--max-bad N)";

// Collects what is missing while a data set is opened. Thread safety: any thread at any time.
class MissingData {
 public:
  // allowed: what is missing is left out, and `left_out`, which may be null, gets a message for each.
  explicit MissingData(bool allowed, BadRecords* left_out = nullptr) : allowed_(allowed), left_out_(left_out) {}

  // "data/train-3: a link to /disk/train-3, which does not exist"
  void add(std::string_view path, std::string_view why);
  std::int64_t count() const;

  // `data_loss`, with the first few by name, unless nothing is missing or that is allowed. Each call is for what was
  // added up to then. `where` names the data set.
  Status check(std::string_view where) const;

 private:
  bool allowed_;
  BadRecords* left_out_;
  mutable std::mutex mutex_;
  std::int64_t count_ = 0;
  std::vector<std::string> first_;
};

// Why a path cannot be opened, given errno: of a link also where it leads.
std::string why_no_file(const std::string& path, int reason);

// The size of a file of data, by its inode: a pipe does not block. `data_loss`: why it is none: "empty", "a pipe, not a
// file", "a link to X, which does not exist"; the message does not name the path.
Result<std::uint64_t> size_of_file(const std::string& path);

// The sizes of many, found by `threads` threads; 0 for one that is none, of which `missing` is told.
std::vector<std::uint64_t> sizes_of_files(const std::vector<std::string>& paths, int threads, MissingData& missing);

// Removes those that are no files of data, of which `missing` is told. Gives the sizes of the others.
std::vector<std::uint64_t> keep_files(std::vector<std::string>& paths, int threads, MissingData& missing);

// Tells `missing` of the files that names such as "train-00002-of-00006" promise beside those that are there, as far as
// they are `wanted`: by name, without a folder.
void find_absent_shards(const std::vector<std::string>& paths,
                        const std::function<bool(const std::string& path)>& wanted, MissingData& missing);

// Says which names stand there in two divisions: "4 files are train-*-of-00004, and 8 train-*-of-00008". Empty: none.
std::string describe_two_divisions(const std::vector<std::string>& paths);

}  // namespace xoe::data
