// TFRecord files, read one record after the other: plain, GZIP and ZLIB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/data/on_error.h"
#include "xoe/data/stage.h"

namespace xoe::data {

enum class Compression : std::uint8_t {
  kAuto,  // by the file's first bytes
  kNone,
  kGzip,
  kZlib,
};
std::string_view compression_name(Compression compression) noexcept;  // "gzip"

// One record. `data` is within a block of the file that is read at once, and stays for as long as a copy of `memory`
// does. A record that is kept keeps that whole block (RecordOptions::block_bytes), so what keeps many, such as a
// shuffle buffer, should copy the data or shuffle positions instead.
struct Record {
  std::string_view data;
  std::int64_t number = 0;   // within its file, from 0; lost records count
  std::uint64_t offset = 0;  // of its header, in the file or in what it decompresses to
  std::shared_ptr<const void> memory;
};

template <>
struct ElementBytes<Record> {
  static constexpr bool kKnown = true;
  static std::int64_t of(const Record& record) noexcept { return static_cast<std::int64_t>(record.data.size()); }
};

// What was left out. Thread safety: any thread at any time; one object may serve many iterators.
class BadRecords {
 public:
  static constexpr std::size_t kMostMessages = 100;

  void add(std::string message);
  void add_unnamed(std::int64_t count);  // of which there is no more to say
  std::int64_t count() const;
  std::string first() const;                  // "data/train-3: record 17 at byte 90112: ..."; empty: none yet
  std::vector<std::string> messages() const;  // the first ones, up to kMostMessages
  std::string text() const;                   // of the first few: "a: why; b: why; and 7 more"

 private:
  mutable std::mutex mutex_;
  std::int64_t count_ = 0;
  std::vector<std::string> messages_;
};

struct RecordOptions {
  Compression compression = Compression::kAuto;
  // kSkip: what is damaged is left out and counted. Wrong data cost one record. A wrong header costs what lies before
  // the next place where a header and the data behind it have right CRCs: one record, when only it was damaged. What
  // cannot be read at all (no such file, an I/O error, a broken compressed stream) costs the rest of its file and
  // counts once.
  OnError on_error = OnError::kFail;
  std::int64_t max_bad = kAutoBad;                   // per iterator (one file, one epoch); more fail
  std::shared_ptr<BadRecords> bad;                   // told of each with kSkip; may be null
  std::size_t block_bytes = std::size_t{256} << 10;  // read at once; longer records get blocks of their own
};

// The records of one file in their order, the same in every epoch; all CRCs are checked. What the file holds when
// iterate() opens it is what counts: records appended later are not seen. size() is unknown.
//
// A saved position is an offset and two counts. restore() goes there at once in a plain file; in a compressed one it
// decompresses all that lies before.
//
// `unavailable`: the file cannot be opened or read; `data_loss`: it is damaged, or became shorter. Errors name file,
// record and offset. Nothing is allocated for a length that the file does not hold.
StagePtr<Record> read_records(std::string path, RecordOptions options = {});

}  // namespace xoe::data
