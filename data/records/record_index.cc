#include "data/records/record_index.h"

#include <algorithm>
#include <iterator>

#include "data/failure_in.h"
#include "data/records/record_stream.h"
#include "data/threads.h"

namespace xoe::data {
namespace {

Status read_compressed(const std::shared_ptr<const OpenFile>& file, const FileIndex& index, const RecordExtent& extent,
                       std::string& buffer) {
  RecordStream stream(inflate_source_near(file, index.compression, index.restarts, extent.offset),
                      extent.end() - extent.offset);
  XOE_TRY(stream.seek(extent.offset));
  XOE_ASSIGN(const auto found, stream.locate());
  if (!found || found->length != extent.length)
    return failure(Code::kDataLoss, "its length changed while the file was in use");
  XOE_ASSIGN(const std::string_view data, stream.take(extent));
  buffer.assign(data);
  return {};
}

}  // namespace

Result<RecordIndex::IndexedFile> RecordIndex::open_file(const std::string& path, const RecordIndexOptions& options,
                                                        bool keep_open) {
  XOE_ASSIGN(OpenFile opened, OpenFile::open(path));
  const auto file = std::make_shared<const OpenFile>(std::move(opened));
  IndexedFile indexed{.path = path, .bytes = file->bytes, .handle = keep_open ? file : nullptr, .index = {}};
  if (options.use_index_files) {
    auto loaded = load_index(*file);  // one that does not fit is ignored
    const bool fits =
        loaded && (options.compression == Compression::kAuto || options.compression == loaded->compression);
    // Where damage is an error, a scan describes it.
    if (fits && (loaded->lost.empty() || (options.on_error == OnError::kSkip &&
                                          static_cast<std::int64_t>(loaded->lost.size()) <= options.max_lost))) {
      indexed.index = std::move(*loaded);
      return indexed;
    }
  }
  XOE_ASSIGN(indexed.index, make_index(file, {.compression = options.compression,
                                              .on_error = options.on_error,
                                              .max_lost = options.max_lost}));
  return indexed;
}

bool RecordIndex::compressed() const noexcept {
  return std::ranges::any_of(files_,
                             [](const IndexedFile& file) { return file.index.compression != Compression::kNone; });
}

Result<std::shared_ptr<const RecordIndex>> RecordIndex::open(const std::vector<std::string>& paths,
                                                             const RecordIndexOptions& options) {
  std::vector<std::optional<Result<IndexedFile>>> opened(paths.size());
  for_each_in_threads(paths.size(), options.threads, [&](std::size_t i) {
    opened[i].emplace(open_file(paths[i], options, paths.size() <= kMaxOpenFiles));
  });
  auto index = std::make_shared<RecordIndex>();
  index->first_.push_back(0);
  for (auto& file : opened) {
    if (!*file) return failure(file->error());
    index->first_.push_back(index->first_.back() + static_cast<std::int64_t>((*file)->index.records.size()));
    index->lost_ += static_cast<std::int64_t>((*file)->index.lost.size());
    index->files_.push_back(std::move(**file));
  }
  return index;
}

RecordIndex::Location RecordIndex::locate(std::int64_t record) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), record);
  const auto file = static_cast<std::size_t>(after - first_.begin()) - 1;
  return {files_[file], record - first_[file]};
}

Result<std::string_view> RecordIndex::read(std::int64_t record, std::string& buffer) const {
  const Location at = locate(record);
  std::shared_ptr<const OpenFile> file = at.file.handle;
  if (!file) {
    auto opened = OpenFile::open(at.file.path);
    if (!opened) return failure_in(record_name(at.file.path, at.number, at.extent().offset), opened.error());
    file = std::make_shared<const OpenFile>(std::move(*opened));
  }
  if (at.file.index.compression == Compression::kNone) return RecordFile(file).read(at.extent(), at.number, buffer);
  Status got = read_compressed(file, at.file.index, at.extent(), buffer);
  if (!got) return failure_in(record_name(at.file.path, at.number, at.extent().offset), got.error());
  return buffer;
}

std::string RecordIndex::name(std::int64_t record) const {
  const Location at = locate(record);
  return record_name(at.file.path, at.number, at.extent().offset);
}

}  // namespace xoe::data
