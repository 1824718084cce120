#include "data/records/record_stream.h"

#include <algorithm>
#include <cstring>

#include "core/base/bytes.h"
#include "data/failure_in.h"
#include "data/files/inflate.h"
#include "data/records/compression.h"
#include "data/records/crc32c.h"

namespace xoe::data {
namespace {

// Bounds the time that a file takes which looks like many long records inside each other.
constexpr std::uint64_t kMaxCheckedBytes = std::uint64_t{1} << 30;
// A damaged length may have any value; a record of more bytes than this is not tried.
constexpr std::uint64_t kMaxTrialBytes = std::uint64_t{64} << 20;

}  // namespace

RecordStream::RecordStream(std::unique_ptr<ByteSource> source, std::size_t block_bytes)
    : source_(std::move(source)), pool_(std::clamp(block_bytes, std::size_t{4} << 10, std::size_t{64} << 20)) {}

Result<RecordStream> RecordStream::open(const std::string& path, Compression compression, std::size_t block_bytes) {
  XOE_ASSIGN(OpenFile opened, OpenFile::open(path));
  const auto file = std::make_shared<const OpenFile>(std::move(opened));
  if (compression == Compression::kAuto) {
    const auto detected = detect_compression(file);
    if (!detected) return failure_in(path, detected.error());
    compression = *detected;
  }
  return RecordStream(compression == Compression::kNone ? plain_source(file) : inflate_source(file, compression),
                      block_bytes);
}

void RecordStream::move_to_block(std::size_t want) {
  const std::size_t capacity = std::max(pool_.block_bytes(), want);
  std::shared_ptr<char> block = capacity == pool_.block_bytes()
                                    ? std::static_pointer_cast<char>(pool_.take())
                                    : std::shared_ptr<char>(new char[capacity], std::default_delete<char[]>());
  const std::size_t kept = have();
  if (kept > 0) std::memcpy(block.get(), block_.get() + cursor_, kept);
  block_ = std::move(block);
  capacity_ = capacity;
  cursor_ = 0;
  filled_ = kept;
}

Status RecordStream::fill(std::size_t want) {
  while (have() < want && !ended_) {
    if (filled_ == capacity_ || (cursor_ > 0 && cursor_ + want > capacity_)) {
      // Where the size of the stream is not known, a length in a header does not justify so much memory at once.
      const std::size_t step = source_->bytes() ? want : std::min(want, 2 * have() + pool_.block_bytes());
      move_to_block(step);
    }
    const auto got = source_->read(block_.get() + filled_, capacity_ - filled_);
    if (!got) {
      broken_ = true;
      return failure(got.error());
    }
    ended_ = *got == 0;
    filled_ += *got;
  }
  return {};
}

void RecordStream::advance(std::size_t bytes) noexcept {
  cursor_ += bytes;
  offset_ += bytes;
}

bool RecordStream::plausible(std::uint64_t length) const noexcept {
  if (length > kMaxRecordBytes) return false;
  const auto all = source_->bytes();
  return !all || *all - offset_ >= kRecordHeader + length + kRecordFooter;
}

Result<std::optional<RecordExtent>> RecordStream::locate() {
  XOE_TRY(fill(kRecordHeader));
  if (have() == 0) return std::nullopt;
  if (have() < kRecordHeader)
    return failure(Code::kDataLoss, "truncated: {} of the header's {} bytes are there", have(), kRecordHeader);
  XOE_ASSIGN(const std::uint64_t length, parse_record_header(ahead().substr(0, kRecordHeader)));
  if (length > kMaxRecordBytes)
    return failure(Code::kDataLoss, "a length of {} bytes; at most {} are read", length, kMaxRecordBytes);
  if (!plausible(length))
    return failure(Code::kDataLoss, "truncated: {} of its {} bytes are there", *source_->bytes() - offset_,
                   kRecordHeader + length + kRecordFooter);
  return RecordExtent{offset_, length};
}

Result<std::string_view> RecordStream::take(const RecordExtent& extent) {
  const std::size_t whole = kRecordHeader + extent.length + kRecordFooter;
  XOE_TRY(fill(whole));
  if (have() < whole) return failure(Code::kDataLoss, "truncated: {} of its {} bytes are there", have(), whole);
  const std::string_view data = ahead().substr(kRecordHeader, extent.length);
  advance(whole);
  if (load_little<std::uint32_t>(data.data() + data.size()) != mask_crc(crc32c(data)))
    return failure(Code::kDataLoss, "the CRC of its {} bytes of data is wrong", extent.length);
  return data;
}

Status RecordStream::pass(const RecordExtent& extent) {
  std::uint64_t left = kRecordHeader + extent.length + kRecordFooter;
  while (left > 0) {
    XOE_TRY(fill(1));
    if (have() == 0) return failure(Code::kDataLoss, "truncated: {} bytes are missing", left);
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(left, have()));
    advance(step);
    left -= step;
  }
  return {};
}

Result<bool> RecordStream::record_ahead(std::uint64_t length, bool right_header) {
  const std::size_t whole = kRecordHeader + length + kRecordFooter;
  XOE_TRY(fill(whole + kRecordHeader));
  checked_ += std::min(whole, have());
  if (have() < whole) return false;
  const std::string_view data = ahead().substr(kRecordHeader, length);
  if (load_little<std::uint32_t>(data.data() + data.size()) == mask_crc(crc32c(data))) return true;
  // The data may be damaged, too: then the next header decides. But a damaged length may point at the header of some
  // other record, so it counts only where this header is good.
  if (!right_header) return false;
  return have() == whole || (have() >= whole + kRecordHeader && is_record_header(ahead().substr(whole, kRecordHeader)));
}

Status RecordStream::resynchronise() {
  XOE_TRY(fill(kRecordHeader));
  if (have() < kRecordHeader) {
    advance(have());
    return {};
  }
  // Where the data are good, only the CRC of the length is damaged. That is tried first, because the data may be record
  // files themselves.
  const auto length = load_little<std::uint64_t>(ahead().data());
  if (length <= kMaxTrialBytes && plausible(length)) {
    XOE_ASSIGN(const bool found, record_ahead(length, false));
    if (found) {
      advance(kRecordHeader + length + kRecordFooter);
      return {};
    }
  }
  advance(1);
  checked_ = 0;
  return scan();
}

Status RecordStream::scan() {
  for (;;) {
    XOE_TRY(fill(kRecordHeader));
    if (have() < kRecordHeader) {
      advance(have());
      return {};
    }
    for (std::size_t candidates = have() - kRecordHeader + 1; candidates > 0; --candidates) {
      const auto length = load_little<std::uint64_t>(ahead().data());
      if (plausible(length) && checked_ <= kMaxCheckedBytes && is_record_header(ahead().substr(0, kRecordHeader))) {
        XOE_ASSIGN(const bool found, record_ahead(length, true));
        if (found) return {};
      }
      advance(1);
    }
  }
}

Status RecordStream::seek(std::uint64_t offset) {
  broken_ = ended_ = false;
  cursor_ = filled_ = 0;
  capacity_ = 0;
  block_.reset();
  if (auto sought = source_->seek(offset); !sought) {
    broken_ = true;
    return sought;
  }
  offset_ = offset;
  return {};
}

}  // namespace xoe::data
