#include "data/records/file_index.h"

#include <algorithm>

#include "core/base/output_file.h"
#include "data/failure_in.h"
#include "data/files/index_path.h"
#include "data/files/listing.h"
#include "data/records/compression.h"
#include "data/records/crc32c.h"
#include "data/records/record_stream.h"

namespace xoe::data {
namespace {

constexpr std::size_t kScanBlock = std::size_t{256} << 10;
constexpr std::uint64_t kEnds = 4096;
// The size of a compressed file does not bound its number of records.
constexpr std::size_t kMaxCompressedRecords = std::size_t{1} << 26;
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{4} << 30;

class IndexMaker {
 public:
  IndexMaker(const std::shared_ptr<const OpenFile>& file, const IndexOptions& options)
      : file_(file), options_(options) {}

  Result<FileIndex> make() {
    index_.compression = options_.compression;
    if (index_.compression == Compression::kAuto) {
      const auto detected = detect_compression(file_);
      if (!detected) return failure_in(file_->path, detected.error());
      index_.compression = *detected;
    }
    XOE_TRY(index_.compression == Compression::kNone ? plain() : compressed());
    return std::move(index_);
  }

 private:
  std::int64_t number() const { return static_cast<std::int64_t>(index_.records.size() + index_.lost.size()); }

  Status plain() {
    const RecordFile file(file_);
    for (std::uint64_t offset = 0; offset < file_->bytes;) {
      const auto extent = file.extent_at(offset, number());
      if (extent) {
        index_.records.push_back(*extent);
        offset = extent->end();
        continue;
      }
      if (extent.error().code() != Code::kDataLoss) return failure(extent.error());
      XOE_TRY(may_lose(extent.error()));
      RecordStream stream(plain_source(file_), kScanBlock);
      XOE_TRY(stream.seek(offset));
      if (auto found = stream.resynchronise(); !found)
        return failure_in(record_name(file_->path, number(), offset), found.error());
      index_.lost.push_back({offset, stream.offset() - offset});
      offset = stream.offset();
    }
    return {};
  }

  Status compressed() {
    RestartPoints points;
    RecordStream stream(inflate_source(file_, index_.compression, &points), kScanBlock);
    for (bool more = true; more && !stream.broken();) {
      XOE_ASSIGN(more, step(stream));
      if (index_.records.size() > kMaxCompressedRecords)
        return failure(Code::kUnsupported, "{}: more than {} records in a compressed file", file_->path,
                       kMaxCompressedRecords);
    }
    index_.restarts = points.take();
    return {};
  }
  // False at the end.
  Result<bool> step(RecordStream& stream) {
    const std::uint64_t offset = stream.offset();
    auto extent = stream.locate();
    if (extent && !*extent) return false;
    Status passed = extent ? stream.pass(**extent) : Status(failure(extent.error()));
    if (passed) {
      index_.records.push_back(**extent);
      return true;
    }
    XOE_TRY(may_lose({passed.error().code(),
                      fmt::format("{}: {}", record_name(file_->path, number(), offset), passed.error().message())}));
    if (!stream.broken() && !extent) (void)stream.resynchronise();  // what breaks then shows as broken()
    const bool rest = stream.broken() || extent;
    index_.lost.push_back({offset, rest ? 0 : stream.offset() - offset});
    return !rest;
  }

  Status may_lose(const Error& error) const {
    if (options_.on_error == OnError::kFail) return failure(error);
    if (static_cast<std::int64_t>(index_.lost.size()) < options_.max_lost) return {};
    return failure(Code::kDataLoss, "more than {} places with damaged framing; the last one: {}", options_.max_lost,
                   error.message());
  }

  std::shared_ptr<const OpenFile> file_;
  IndexOptions options_;
  FileIndex index_;
};

}  // namespace

Result<FileIndex> make_index(const std::shared_ptr<const OpenFile>& file, const IndexOptions& options) {
  return IndexMaker(file, options).make();
}

Result<FileStamp> stamp_file(const OpenFile& file) {
  const std::uint64_t head = std::min(kEnds, file.bytes);
  const std::uint64_t tail = std::min(kEnds, file.bytes - head);
  std::string ends(head + tail, '\0');
  Status got = file.read_at(0, ends.data(), head);
  if (got) got = file.read_at(file.bytes - tail, ends.data() + head, tail);
  if (!got) return failure_in(file.path, got.error());
  return FileStamp{file.bytes, file.modified, crc32c(ends)};
}

Result<FileIndex> load_index(const OpenFile& file) {
  const std::string path = index_path(file.path);
  XOE_ASSIGN(const std::string content, read_whole(path, kMaxIndexBytes));
  XOE_ASSIGN(const FileStamp stamp, stamp_file(file));
  auto index = decode_index(content, stamp);
  if (!index) return failure_in(path, index.error());
  return index;
}

Result<FileIndex> write_index(const std::string& path, const IndexOptions& options) {
  if (is_name_too_long(index_path(path)) && !is_name_too_long(path))
    return failure(
        Code::kInvalidArgument,
        "{}: the name of its index, which ends in {}, would be too long for the file system; give the file a "
        "name that is {} bytes shorter, or go on without an index: it is then made in memory at each opening",
        path, kIndexSuffix, kIndexSuffix.size());
  if (const auto there = OpenFile::open(index_path(path))) {
    XOE_ASSIGN(const std::string head, read_head(*there, kEnds));
    if (!head.empty() && !is_index(head))
      return failure(Code::kInvalidArgument, "{}: not an index of Xoe, so it is not overwritten; move it away",
                     index_path(path));
  }
  XOE_ASSIGN(OpenFile opened, OpenFile::open(path));
  const auto file = std::make_shared<const OpenFile>(std::move(opened));
  XOE_ASSIGN(const FileStamp stamp, stamp_file(*file));
  XOE_ASSIGN(FileIndex index, make_index(file, options));
  XOE_TRY(write_file(index_path(path), encode_index(index, stamp)));
  return index;
}

}  // namespace xoe::data
