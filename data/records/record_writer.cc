#include "xoe/data/record_writer.h"

#include <zlib.h>

#include <optional>
#include <string>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "data/records/crc32c.h"

namespace xoe::data {
namespace {

constexpr std::size_t kOutputBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxInputBytes = std::size_t{1} << 30;  // zlib counts in 32 bits

std::string header_of(std::string_view data) {
  std::string header;
  append_little<std::uint64_t>(header, data.size());
  append_little<std::uint32_t>(header, mask_crc(crc32c(header)));
  return header;
}

std::string footer_of(std::string_view data) {
  std::string footer;
  append_little<std::uint32_t>(footer, mask_crc(crc32c(data)));
  return footer;
}

// Compresses a file from front to back.
class Deflater {
 public:
  // REQUIRES: `compression` is kGzip or kZlib. `invalid_argument`: an unknown level.
  static Result<std::unique_ptr<Deflater>> create(Compression compression, int level) {
    std::unique_ptr<Deflater> made(new Deflater);
    const int window_bits = compression == Compression::kGzip ? 31 : 15;
    const int result = ::deflateInit2(&made->stream_, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
    if (result == Z_MEM_ERROR) return failure(Code::kResourceExhausted, "no memory to compress with");
    if (result != Z_OK) return failure(Code::kInvalidArgument, "compression level {}; 1 to 9 and -1 are known", level);
    return made;
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater() { ::deflateEnd(&stream_); }

  Status write(std::string_view bytes, OutputFile& to) {
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, kMaxInputBytes);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
      stream_.avail_in = static_cast<uInt>(part.size());
      XOE_TRY(run(to, Z_NO_FLUSH));
      bytes.remove_prefix(part.size());
    }
    return {};
  }
  // Must be the last call.
  Status finish(OutputFile& to) {
    stream_.avail_in = 0;
    return run(to, Z_FINISH);
  }

 private:
  Deflater() : output_(kOutputBytes, '\0') {}
  Status run(OutputFile& to, int flush) {
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(output_.data());
      stream_.avail_out = static_cast<uInt>(output_.size());
      ::deflate(&stream_, flush);
      XOE_TRY(to.write(std::string_view(output_).substr(0, output_.size() - stream_.avail_out)));
    } while (stream_.avail_out == 0);
    return {};
  }

  z_stream stream_ = {};
  std::string output_;
};

}  // namespace

std::string framed_record(std::string_view data) { return header_of(data).append(data).append(footer_of(data)); }

struct RecordWriter::Impl {
  OutputFile file;
  std::unique_ptr<Deflater> deflater;  // null: plain
  bool completed = false;
  std::optional<Error> failed;
  std::int64_t records = 0;
  std::uint64_t bytes = 0;

  Status put(std::string_view data) { return deflater ? deflater->write(data, file) : file.write(data); }
  // A record that was half written is damage, so every later call fails.
  Status kept(Status status) {
    if (!status && !failed) failed = status.error();
    return status;
  }
  Status usable() const { return failed ? Status(failure(*failed)) : Status(); }
};

RecordWriter::RecordWriter(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
RecordWriter::RecordWriter(RecordWriter&& other) noexcept = default;
RecordWriter::~RecordWriter() = default;

Result<RecordWriter> RecordWriter::create(std::string path, Compression compression, int level) {
  std::unique_ptr<Deflater> deflater;
  if (compression == Compression::kGzip || compression == Compression::kZlib) {
    XOE_ASSIGN(deflater, Deflater::create(compression, level));
  }
  XOE_ASSIGN(OutputFile file, OutputFile::create(std::move(path)));
  return RecordWriter(std::make_unique<Impl>(Impl{std::move(file), std::move(deflater), false, {}, 0, 0}));
}

Status RecordWriter::write(std::string_view data) {
  XOE_TRY(impl_->usable());
  const std::string header = header_of(data);
  const std::string footer = footer_of(data);
  for (const std::string_view part : {std::string_view(header), data, std::string_view(footer)})
    XOE_TRY(impl_->kept(impl_->put(part)));
  ++impl_->records;
  impl_->bytes += header.size() + data.size() + footer.size();
  return {};
}

Status RecordWriter::complete() {
  XOE_TRY(impl_->usable());
  if (impl_->deflater) XOE_TRY(impl_->kept(impl_->deflater->finish(impl_->file)));
  impl_->completed = true;
  return impl_->kept(impl_->file.complete());
}

Status RecordWriter::finish() {
  if (!impl_->completed) XOE_TRY(complete());
  XOE_TRY(impl_->usable());
  return impl_->file.finish();
}

std::int64_t RecordWriter::records() const noexcept { return impl_->records; }
std::uint64_t RecordWriter::bytes() const noexcept { return impl_->bytes; }

}  // namespace xoe::data
