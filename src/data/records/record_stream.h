// Walks through a TFRecord file in big steps; goes on behind damage where it is told to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/records/byte_source.h"
#include "data/records/record_file.h"
#include "xoe/data/memory_pool.h"

namespace xoe::data {

// Thread safety: one thread at a time.
class RecordStream {
 public:
  explicit RecordStream(std::unique_ptr<ByteSource> source, std::size_t block_bytes);
  // `unavailable`: the file cannot be opened.
  static Result<RecordStream> open(const std::string& path, Compression compression, std::size_t block_bytes);

  // Of the header that comes next.
  std::uint64_t offset() const noexcept { return offset_; }

  // The record whose header comes next, nullopt at the end. `data_loss`: no right header there, or the file ends before
  // the record does.
  Result<std::optional<RecordPlace>> locate();
  // Its data, once more only with what locate() gave. Stands behind the record then, also when the data's CRC is wrong;
  // not when the file ends within.
  Result<std::string_view> take(const RecordPlace& place);
  // The same without the data and their CRC.
  Status pass(const RecordPlace& place);
  // Keeps the data that take() gave last.
  std::shared_ptr<const void> memory() const { return block_; }

  // Where locate() or take() found damage: goes to the next place with a right header, behind which are right data, or
  // another right header, or the end; or to the end.
  Status resynchronise();

  // Whether an error was the source's, behind which nothing can be read.
  bool broken() const noexcept { return broken_; }

  Status seek(std::uint64_t offset);

 private:
  std::size_t have() const noexcept { return filled_ - cursor_; }
  std::string_view ahead() const noexcept { return {block_.get() + cursor_, have()}; }
  // At least `want` bytes ahead, fewer only at the end.
  Status fill(std::size_t want);
  void move_to_block(std::size_t want);
  void advance(std::size_t bytes) noexcept;
  // Whether a record of this length may begin here, before its CRCs are looked at.
  bool plausible(std::uint64_t length) const noexcept;
  // Whether there is a record of this length, by its data, or by a right header and what follows.
  Result<bool> record_ahead(std::uint64_t length, bool right_header);
  Status scan();

  std::unique_ptr<ByteSource> source_;
  MemoryPool pool_;
  std::shared_ptr<char> block_;
  std::size_t capacity_ = 0;
  std::size_t cursor_ = 0;  // in the block: where the next header is
  std::size_t filled_ = 0;
  std::uint64_t offset_ = 0;   // in the stream: the same place
  std::uint64_t checked_ = 0;  // bytes of would-be records that a resynchronisation read in vain
  bool ended_ = false;
  bool broken_ = false;
};

}  // namespace xoe::data
