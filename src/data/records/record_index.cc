#include "data/records/record_index.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "data/records/record_stream.h"
#include "data/records/threads.h"

namespace xoe::data {
namespace {

Status read_compressed(const std::shared_ptr<const OpenFile>& file, const FileIndex& index, const RecordPlace& place,
                       std::string& buffer) {
  const auto after = std::upper_bound(index.restarts.begin(), index.restarts.end(), place.offset,
                                      [](std::uint64_t at, const RestartPoint& point) { return at < point.out; });
  RecordStream stream(after == index.restarts.begin() ? inflate_source(file, index.compression)
                                                      : inflate_source_at(file, index.compression, *std::prev(after)),
                      place.end() - place.offset);
  XOE_TRY(stream.seek(place.offset));
  XOE_ASSIGN(const auto found, stream.locate());
  if (!found || found->length != place.length)
    return failure(Code::kDataLoss, "its length changed while the file was in use");
  XOE_ASSIGN(const std::string_view data, stream.take(place));
  buffer.assign(data);
  return {};
}

}  // namespace

Result<std::vector<std::string>> match_files(const std::string& directory, const std::string& pattern) {
  std::error_code error;
  std::vector<std::string> paths;
  std::filesystem::directory_iterator entries(directory, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    std::error_code ignored;
    if (::fnmatch(pattern.c_str(), entries->path().filename().c_str(), FNM_PERIOD) == 0 &&
        entries->is_regular_file(ignored) && !is_index_path(entries->path().native()))
      paths.push_back(entries->path().string());
  }
  if (error) return failure(Code::kUnavailable, "{}: cannot list the directory: {}", directory, error.message());
  if (paths.empty()) return failure(Code::kUnavailable, "{}: no file matches {}", directory, pattern);
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<RecordIndex::Part> RecordIndex::open_part(const std::string& path, const RecordIndexOptions& options,
                                                 bool keep_open) {
  XOE_ASSIGN(OpenFile opened, OpenFile::open(path));
  const auto file = std::make_shared<const OpenFile>(std::move(opened));
  Part part{.path = path, .file = keep_open ? file : nullptr, .index = {}};
  if (options.use_index_files) {
    auto loaded = load_index(*file);  // one that does not fit is as good as none
    const bool fits =
        loaded && (options.compression == Compression::kAuto || options.compression == loaded->compression);
    // Where damage must not be passed over, the scan tells what it is.
    if (fits && (loaded->lost.empty() || (options.on_error == OnError::kSkip &&
                                          static_cast<std::int64_t>(loaded->lost.size()) <= options.max_lost))) {
      part.index = std::move(*loaded);
      return part;
    }
  }
  XOE_ASSIGN(part.index, make_index(file, {.compression = options.compression,
                                           .on_error = options.on_error,
                                           .max_lost = options.max_lost}));
  return part;
}

Result<std::shared_ptr<const RecordIndex>> RecordIndex::open(const std::vector<std::string>& paths,
                                                             const RecordIndexOptions& options) {
  std::vector<std::optional<Result<Part>>> opened(paths.size());
  for_each_in_threads(paths.size(), options.threads, [&](std::size_t i) {
    opened[i].emplace(open_part(paths[i], options, paths.size() <= kMostOpenFiles));
  });
  auto index = std::make_shared<RecordIndex>();
  index->first_.push_back(0);
  for (auto& part : opened) {
    if (!*part) return failure(part->error());
    index->first_.push_back(index->first_.back() + static_cast<std::int64_t>((*part)->index.places.size()));
    index->lost_ += static_cast<std::int64_t>((*part)->index.lost.size());
    index->parts_.push_back(std::move(**part));
  }
  return index;
}

std::vector<std::string> RecordIndex::lost_names() const {
  std::vector<std::string> names;
  for (const Part& part : parts_)
    for (const LostRange& range : part.index.lost)
      names.push_back(
          range.bytes == 0
              ? fmt::format("{}: the rest from byte {} on cannot be decompressed", part.path, range.offset)
              : fmt::format("{}: {} bytes at byte {} are no whole record", part.path, range.bytes, range.offset));
  return names;
}

RecordIndex::Where RecordIndex::where(std::int64_t record) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), record);
  const auto file = static_cast<std::size_t>(after - first_.begin()) - 1;
  return {parts_[file], record - first_[file]};
}

Result<std::string_view> RecordIndex::read(std::int64_t record, std::string& buffer) const {
  const Where at = where(record);
  std::shared_ptr<const OpenFile> file = at.part.file;
  if (!file) {
    auto opened = OpenFile::open(at.part.path);
    if (!opened)
      return failure(opened.error().code(), "{}: {}", record_name(at.part.path, at.number, at.place().offset),
                     opened.error().message());
    file = std::make_shared<const OpenFile>(std::move(*opened));
  }
  if (at.part.index.compression == Compression::kNone) return RecordFile(file).read(at.place(), at.number, buffer);
  Status got = read_compressed(file, at.part.index, at.place(), buffer);
  if (!got)
    return failure(got.error().code(), "{}: {}", record_name(at.part.path, at.number, at.place().offset),
                   got.error().message());
  return buffer;
}

std::string RecordIndex::name(std::int64_t record) const {
  const Where at = where(record);
  return record_name(at.part.path, at.number, at.place().offset);
}

}  // namespace xoe::data
