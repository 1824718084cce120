// The ledger of a training: which records each step consumed, in files that survive the death of their writer
// (docs/formats/ledger.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::data {

// A pass of a step on one rank: the records of its batch. It counts once the step is committed, see check_ledger().
struct LedgerStep {
  std::int64_t world = 0;
  std::int64_t step = 0;  // of the training, from 1
  int rank = 0;
  std::int64_t epoch = 0;
  std::int64_t left = 0;  // batches of the epoch that follow
  std::vector<std::int64_t> records = {};
  bool operator==(const LedgerStep&) const = default;
};

// A rank's part in a group of ranks: from its formation to the loss, join or departure of a rank.
struct LedgerWorld {
  std::int64_t number = 0;  // rises from world to world, also from job to job
  int rank = 0;
  int size = 1;
  std::int64_t first_step = 1;
  std::string told = {};  // by which file; not written
  bool operator==(const LedgerWorld&) const = default;
};

// A step that is done on some rank, and so has been computed on all.
struct LedgerDone {
  std::int64_t world = 0;
  std::int64_t step = 0;
  bool operator==(const LedgerDone&) const = default;
};

// The data set and the training that a file belongs to.
struct LedgerData {
  std::int64_t records = 0;       // in the data set
  std::uint64_t fingerprint = 0;  // of its order and files; the same on all ranks
  std::uint64_t run = 0;          // the training, the same in all files of it; 0: not told, in files of version 1
  std::string told = {};          // by which file; not written
  bool operator==(const LedgerData& other) const noexcept { return same_data(other) && run == other.run; }
  bool same_data(const LedgerData& other) const noexcept {
    return records == other.records && fingerprint == other.fingerprint;
  }
};

// The content of one file, or of several.
struct LedgerLines {
  std::vector<LedgerData> data = {};  // of each file
  std::vector<LedgerWorld> worlds = {};
  std::vector<LedgerStep> steps = {};
  std::vector<LedgerDone> done = {};
};

// Appends. One thread.
class LedgerWriter {
 public:
  // Creates a file of its own in `folder`, which is made where it is missing. `unavailable`: it cannot be.
  static Result<LedgerWriter> open(const std::string& folder, const LedgerData& data);

  Status world(const LedgerWorld& world);
  // Before the step's gradients are exchanged: what is lost with this rank from then on was not needed by the others.
  Status step(const LedgerStep& step);
  // After the step has changed the model.
  Status done(const LedgerDone& done);

  const std::string& path() const noexcept { return path_; }

 private:
  LedgerWriter(Fd file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  Status append(std::string line);

  Fd file_;
  std::string path_;
};

// Lines as they are in the file, each with its checksum and end.
std::string ledger_line(const LedgerData& data);
std::string ledger_line(const LedgerWorld& world);
std::string ledger_line(const LedgerStep& step);
std::string ledger_line(const LedgerDone& done);
// Any text with its checksum and an end.
std::string ledger_checked(std::string text);

// Adds the lines of a file to `lines`. A last line without an end is what its writer did not finish: it counts for
// nothing. `data_loss`: names the file and the line, where another one is damaged.
Status parse_ledger(std::string_view text, std::string_view name, LedgerLines& lines);
// Reads all files of these folders. `unavailable`: a folder cannot be read, or has no ledger.
Result<LedgerLines> read_ledger(std::span<const std::string> folders);

// A folder as a training finds it that begins to write there.
struct LedgerFolder {
  std::int64_t last_world = 0;  // the largest number of one; 0: there is none yet
  // The file and the training of that world; empty: there is no ledger.
  std::string file = {};
  std::uint64_t run = 0;
  bool empty() const noexcept { return file.empty(); }
};
// Empty also where there is no such folder.
Result<LedgerFolder> look_at_ledger(const std::string& folder);

}  // namespace xoe::data
