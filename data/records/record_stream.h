// Reads a TFRecord file from front to back in large blocks; can continue behind damage.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/files/byte_source.h"
#include "data/records/record_file.h"
#include "xoe/data/memory_pool.h"

namespace xoe::data {

// Thread safety: one thread at a time.
class RecordStream {
 public:
  explicit RecordStream(std::unique_ptr<ByteSource> source, std::size_t block_bytes);
  // `unavailable`: the file cannot be opened.
  static Result<RecordStream> open(const std::string& path, Compression compression, std::size_t block_bytes);

  // The offset of the next header.
  std::uint64_t offset() const noexcept { return offset_; }

  // The next record; nullopt at the end. `data_loss`: the header is damaged, or the file ends before the record does.
  Result<std::optional<RecordExtent>> locate();
  // The data of the record that locate() returned. Then the stream is behind that record, also when the CRC of the data
  // is wrong, but not when the file ends within the record.
  Result<std::string_view> take(const RecordExtent& extent);
  // Moves behind the record without checking its data.
  Status pass(const RecordExtent& extent);
  // Owns the data that take() returned last.
  std::shared_ptr<const void> memory() const { return block_; }

  // After damage that locate() or take() found: moves to the next good header that is followed by good data, another
  // good header or the end; else to the end.
  Status resynchronise();

  // Whether the source failed, so that nothing more can be read.
  bool broken() const noexcept { return broken_; }

  Status seek(std::uint64_t offset);

 private:
  std::size_t have() const noexcept { return filled_ - cursor_; }
  std::string_view ahead() const noexcept { return {block_.get() + cursor_, have()}; }
  // Reads until `want` bytes are ahead; fewer only at the end.
  Status fill(std::size_t want);
  void move_to_block(std::size_t want);
  void advance(std::size_t bytes) noexcept;
  // Whether a record of this length may begin here, by its length alone.
  bool plausible(std::uint64_t length) const noexcept;
  // Whether a record of this length is ahead: by its data, or, with a good header, by the header that follows.
  Result<bool> record_ahead(std::uint64_t length, bool right_header);
  Status scan();

  std::unique_ptr<ByteSource> source_;
  MemoryPool pool_;
  std::shared_ptr<char> block_;
  std::size_t capacity_ = 0;
  std::size_t cursor_ = 0;  // in the block: where the next header is
  std::size_t filled_ = 0;
  std::uint64_t offset_ = 0;   // of the same byte in the stream
  std::uint64_t checked_ = 0;  // bytes of candidates that resynchronise() read in vain
  bool ended_ = false;
  bool broken_ = false;
};

}  // namespace xoe::data
