#include "xoe/data/record_writer.h"

#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/output_file.h"
#include "data/records/crc32c.h"
#include "data/records/deflate.h"

namespace xoe::data {

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
  return RecordWriter(std::unique_ptr<Impl>(new Impl{std::move(file), std::move(deflater), false, {}, 0, 0}));
}

Status RecordWriter::write(std::string_view data) {
  XOE_TRY(impl_->usable());
  std::string header;
  append_little<std::uint64_t>(header, data.size());
  append_little<std::uint32_t>(header, mask_crc(crc32c(header)));
  std::string footer;
  append_little<std::uint32_t>(footer, mask_crc(crc32c(data)));
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
