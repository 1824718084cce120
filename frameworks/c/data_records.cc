// Streams of records.
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "data/files/missing.h"
#include "data/records/record_index.h"
#include "frameworks/c/compare_on.h"
#include "frameworks/c/data_options.h"
#include "frameworks/c/objects.h"
#include "frameworks/c/structs.h"
#include "xoe/data/files.h"
#include "xoe/data/records.h"
#include "xoe/data/stages.h"

namespace xoe::capi {
namespace {

// A record with the name of its file.
struct FileRecord {
  data::Record record;
  std::shared_ptr<const std::string> file;
};
using FileRecordIterator = data::Iterator<FileRecord>;

// Copies the record out of its block, because each record in a shuffle buffer would keep a whole block.
data::Record copy_out(const data::Record& from) {
  auto own = std::make_shared<const std::string>(from.data);
  const std::string_view bytes = *own;
  return {bytes, from.number, from.offset, std::move(own)};
}

class RecordsOfFile final : public data::Stage<FileRecord> {
 public:
  RecordsOfFile(const std::string& file, const data::RecordOptions& options, bool copies)
      : file_(std::make_shared<const std::string>(file)),
        records_(data::read_records(file, options)),
        copies_(copies) {}

  Result<std::unique_ptr<FileRecordIterator>> iterate(std::int64_t epoch) const override {
    XOE_ASSIGN(auto records, records_->iterate(epoch));
    return std::make_unique<Walk>(file_, std::move(records), copies_);
  }
  std::optional<std::int64_t> size() const override { return records_->size(); }

 private:
  class Walk final : public FileRecordIterator {
   public:
    Walk(std::shared_ptr<const std::string> file, std::unique_ptr<data::Iterator<data::Record>> records, bool copies)
        : file_(std::move(file)), records_(std::move(records)), copies_(copies) {}

    Result<std::optional<FileRecord>> next() override {
      XOE_ASSIGN(auto record, records_->next());
      if (!record) return std::nullopt;
      return FileRecord{copies_ ? copy_out(*record) : std::move(*record), file_};
    }
    data::State save() const override { return records_->save(); }
    Status restore(data::State state) override { return records_->restore(std::move(state)); }

   private:
    std::shared_ptr<const std::string> file_;
    std::unique_ptr<data::Iterator<data::Record>> records_;
    bool copies_;
  };

  std::shared_ptr<const std::string> file_;
  data::StagePtr<data::Record> records_;
  bool copies_;
};

Status check(const RecordsOptions& options, std::size_t files) {
  const auto require = [](bool good, std::string_view what, std::int64_t value) -> Status {
    if (good) return {};
    return failure(Code::kInvalidArgument, "records: {} is {}", what, value);
  };
  XOE_TRY(require(options.size > 0, "size (1 or more)", options.size));
  XOE_TRY(require(options.rank >= 0 && options.rank < options.size, "rank (0 to size - 1)", options.rank));
  XOE_TRY(require(options.shuffle_buffer >= 0, "shuffle_buffer (0 or more)", options.shuffle_buffer));
  XOE_TRY(require(options.interleave.cycle_length > 0 && options.interleave.cycle_length <= 65536,
                  "cycle_length (1 to 65536)", options.interleave.cycle_length));
  XOE_TRY(require(options.interleave.block_length > 0, "block_length (1 or more)", options.interleave.block_length));
  XOE_TRY(require(options.interleave.threads >= data::kAutoThreads && options.interleave.threads <= 1024,
                  "threads (0 to 1024, or auto)", options.interleave.threads));
  XOE_TRY(require(options.interleave.processes > 0, "processes (1 or more)", options.interleave.processes));
  XOE_TRY(require(options.interleave.ahead > 0, "ahead (1 or more)", options.interleave.ahead));
  XOE_TRY(require(options.epochs >= 0, "epochs (0 or more)", options.epochs));
  XOE_TRY(require(options.reading.max_bad >= 0, "max_bad (0 or more)", options.reading.max_bad));
  if (options.reading.block_bytes == 0 || options.reading.block_bytes > std::size_t{1} << 30)
    return failure(Code::kInvalidArgument, "records: block_bytes (1 to 1 GiB) is {}", options.reading.block_bytes);
  if (options.shard_by_file && static_cast<std::size_t>(options.size) > files)
    return failure(Code::kInvalidArgument,
                   "records: {} files are too few for {} ranks; with shard_by_file=0 they share the records of all",
                   files, options.size);
  return {};
}

// An epoch, with the limit of bad records over all of its files.
class LimitedRecords final : public data::Stage<FileRecord> {
 public:
  LimitedRecords(data::StagePtr<FileRecord> records, const data::RecordOptions& options)
      : records_(std::move(records)), bad_(options.bad), limit_(options.max_bad) {}

  Result<std::unique_ptr<FileRecordIterator>> iterate(std::int64_t epoch) const override {
    const std::int64_t before = bad_->count();
    XOE_ASSIGN(auto records, records_->iterate(epoch));
    return std::make_unique<Walk>(std::move(records), *this, epoch, before);
  }
  std::optional<std::int64_t> size() const override { return records_->size(); }

 private:
  class Walk final : public FileRecordIterator {
   public:
    Walk(std::unique_ptr<FileRecordIterator> records, const LimitedRecords& stage, std::int64_t epoch,
         std::int64_t before)
        : records_(std::move(records)), bad_(stage.bad_), limit_(stage.limit_), epoch_(epoch), before_(before) {}

    Result<std::optional<FileRecord>> next() override {
      auto record = records_->next();
      const std::int64_t bad = bad_->count() - before_;
      if (!record || bad <= limit_) return record;
      return failure(Code::kDataLoss, "{} in epoch {}, more than the {} allowed by max_bad: {}",
                     xoe::counted(bad, "bad record"), epoch_, limit_, bad_->text());
    }
    data::State save() const override { return records_->save(); }
    Status restore(data::State state) override {
      before_ = bad_->count();
      return records_->restore(std::move(state));
    }
    std::vector<data::StageReport> stages() const override { return records_->stages(); }

   private:
    std::unique_ptr<FileRecordIterator> records_;
    std::shared_ptr<data::BadRecords> bad_;
    std::int64_t limit_;
    std::int64_t epoch_;
    std::int64_t before_;  // of the epoch, or of where it was restored
  };

  data::StagePtr<FileRecord> records_;
  std::shared_ptr<data::BadRecords> bad_;
  std::int64_t limit_;
};

data::StagePtr<FileRecord> make_stage(std::vector<std::string> files, const RecordsOptions& options) {
  const std::size_t count = files.size();
  auto order = data::from_vector(std::move(files));
  if (options.shuffle_files) order = data::shuffle(order, count, options.seed);
  if (options.shard_by_file) order = data::shard(order, options.rank, options.size);
  const bool copies = options.shuffle_buffer > 1;
  auto records = data::interleave<FileRecord, std::string>(
      order,
      [reading = options.reading, copies](const std::string& file) -> Result<data::StagePtr<FileRecord>> {
        return std::make_shared<const RecordsOfFile>(file, reading, copies);
      },
      options.interleave);
  if (!options.shard_by_file) records = data::shard(records, options.rank, options.size);
  auto epoch = data::shuffle(records, static_cast<std::size_t>(options.shuffle_buffer), options.seed);
  return data::repeat<FileRecord>(std::make_shared<const LimitedRecords>(std::move(epoch), options.reading),
                                  options.epochs);
}

struct OwnedRecord : xoe_record {
  explicit OwnedRecord(FileRecord from) : xoe_record{}, owned(std::move(from)) {
    struct_size = sizeof(xoe_record);
    data = owned.record.data.data();
    size = owned.record.data.size();
    file = owned.file->c_str();
    number = owned.record.number;
    offset = owned.record.offset;
  }

  FileRecord owned;
};

}  // namespace
}  // namespace xoe::capi

struct xoe_records {
  std::mutex mutex;  // an iterator is for one thread at a time
  std::int64_t files_in_all = 0;
  std::int64_t names = 0;  // of the files, as a fingerprint: files may grow
  std::int64_t files = 0;  // of this rank, in an epoch
  std::int64_t delivered = 0;
  std::shared_ptr<xoe::data::BadRecords> bad;
  std::shared_ptr<const xoe::data::BadRecords> missing;
  std::vector<std::string> paths;
  xoe::data::Compression compression = xoe::data::Compression::kAuto;
  std::shared_ptr<const xoe::data::RecordIndex> index;  // null: nothing has asked for it
  std::unique_ptr<xoe::capi::FileRecordIterator> iterator;
};

namespace xoe::capi {
namespace {

// What xoe_records_open() was given.
struct RecordsRequest {
  std::vector<std::string> patterns;
  RecordsOptions options;
  std::shared_ptr<data::BadRecords> missing = std::make_shared<data::BadRecords>();
};

Result<RecordsRequest> request_of(const char* const* patterns, std::size_t count, const xoe_records_options* from) {
  XOE_TRY(need(patterns, "patterns"));
  if (count == 0) return failure(Code::kInvalidArgument, "records: no patterns of files");
  RecordsRequest request;
  for (std::size_t i = 0; i < count; ++i) {
    XOE_TRY(need(patterns[i], fmt::format("pattern {}", i)));
    request.patterns.emplace_back(patterns[i]);
  }
  if (from != nullptr) {
    const std::lock_guard lock(from->mutex);
    request.options = from->options;
  }
  data::resolve_bad_limit(request.options.reading);
  return request;
}

Result<std::vector<std::string>> find_files(const RecordsRequest& request) {
  XOE_ASSIGN(std::vector<std::string> files,
             data::match_files(request.patterns,
                               {.allow_missing = request.options.allow_missing, .left_out = request.missing.get()}));
  XOE_TRY(check(request.options, files.size()));
  return files;
}

// A file's name below what a pattern says before its first sign.
std::string name_of(const std::string& path, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const std::string fixed = pattern.substr(0, pattern.find_first_of("*?[{\\"));
    const std::string folder = fixed.substr(0, fixed.rfind('/') + 1);
    if (!folder.empty() && path.starts_with(folder)) return path.substr(folder.size());
  }
  return path;
}

data::OpenedData opened_data(const RecordsRequest& request, const std::vector<std::string>& files) {
  std::vector<data::OpenedFile> opened;
  opened.reserve(files.size());
  for (const std::string& path : files)
    opened.push_back({.name = name_of(path, request.patterns), .bytes = data::size_of_file(path).value_or(0)});
  const RecordsOptions& options = request.options;
  const bool drawn = options.shuffle_files || options.shuffle_buffer > 1;
  const std::size_t count = opened.size();
  return {.where = request.patterns.front(),
          .order = data::mix(options.shard_by_file ? 1 : 0, options.shuffle_files ? 1 : 0, drawn ? options.seed : 0),
          .files = count,
          .file = [opened = std::move(opened)](std::size_t number) { return opened[number]; }};
}

Status open_files(std::vector<std::string> files, RecordsRequest request, xoe_records** records) {
  RecordsOptions& options = request.options;
  auto made = std::make_unique<xoe_records>();
  made->files_in_all = made->files = static_cast<std::int64_t>(files.size());
  if (options.shard_by_file)
    made->files = data::plan_shard(made->files, options.rank, options.size, 1, data::Remainder::kKeep).elements;
  made->names = static_cast<std::int64_t>(
      data::files_fingerprint({.where = {}, .files = files.size(), .file = [&](std::size_t number) {
                                 return data::OpenedFile{.name = name_of(files[number], request.patterns)};
                               }}));
  made->missing = request.missing;
  made->bad = options.reading.bad = std::make_shared<data::BadRecords>();
  made->paths = files;
  made->compression = options.reading.compression;
  XOE_ASSIGN(made->iterator, make_stage(std::move(files), options)->iterate(0));
  *records = made.release();
  return {};
}

// engine: whose ranks share the records and compare what they opened; null: none.
Status open(xoe_engine* engine, const char* const* patterns, std::size_t count, const xoe_records_options* from,
            xoe_records** records) {
  XOE_TRY(need(records, "records"));
  XOE_ASSIGN(RecordsRequest request, request_of(patterns, count, from));
  if (engine != nullptr) {
    const Topology& topology = engine->engine->topology();
    request.options.rank = topology.rank;
    request.options.size = topology.size;
    if (request.options.interleave.processes == 1) request.options.interleave.processes = topology.local_size;
  }
  auto found = find_files(request);
  if (engine != nullptr)
    XOE_TRY(
        compare_on(*engine, found ? Result<data::OpenedData>(opened_data(request, *found)) : failure(found.error())));
  XOE_ASSIGN(std::vector<std::string> files, std::move(found));
  return open_files(std::move(files), std::move(request), records);
}

// with() for records, which no other thread uses meanwhile: body(xoe_records&).
template <class Body>
xoe_status with_records(xoe_records* records, Body&& body) noexcept {
  return with(records, "records", [&](xoe_records& it) -> Status {
    const std::lock_guard lock(it.mutex);
    return body(it);
  });
}

Status save(const xoe_records& records, char** text) {
  data::State state = records.iterator->save();
  state.push("records.files", records.files_in_all);
  state.push("records.names", records.names);
  return copy_text(state.to_text(), text);
}

Status restore(xoe_records& records, const char* text) {
  XOE_TRY(need(text, "text"));
  XOE_ASSIGN(data::State state, data::State::from_text(text));
  const auto names = state.pop("records.names");  // earlier versions saved none
  XOE_ASSIGN(const std::int64_t files, state.pop("records.files"));
  if (files != records.files_in_all)
    return failure(Code::kInvalidArgument, "saved position: of {} files; here are {}", files, records.files_in_all);
  if (names && *names != records.names)
    return failure(Code::kInvalidArgument, "saved position: of {} files with other names than those here", files);
  return records.iterator->restore(std::move(state));
}

Result<std::int64_t> skip(xoe_records& records, std::int64_t count) {
  XOE_TRY(check_number(count, 0, INT64_MAX, "count"));
  std::int64_t passed = 0;
  for (; passed < count; ++passed) {
    XOE_ASSIGN(const bool there, records.iterator->skip(1));
    if (!there) break;
  }
  return passed;
}

Status file_of(xoe_records& records, std::int64_t file, char** path, std::int64_t* count) {
  XOE_TRY(need(count, "count"));
  XOE_TRY(check_number(file, 0, std::ssize(records.paths) - 1, "file"));
  if (records.index == nullptr) {
    XOE_ASSIGN(records.index, data::RecordIndex::open(records.paths, {.compression = records.compression}));
  }
  const auto number = static_cast<std::size_t>(file);
  *count = records.index->first(number + 1) - records.index->first(number);
  return copy_text(records.paths[number], path);
}

Status report_of(const xoe_records& records, char** json) {
  using Json = nlohmann::ordered_json;
  const Json out = {{"files", records.files},
                    {"records", records.delivered},
                    {"bad", records.bad->count()},
                    {"messages", records.bad->messages()},
                    {"missing", records.missing->count()},
                    {"missing_files", records.missing->messages()}};
  // A file name need not be UTF-8.
  return copy_text(out.dump(-1, ' ', false, Json::error_handler_t::replace), json);
}

}  // namespace
}  // namespace xoe::capi

using xoe::Status;
using xoe::capi::guard;
using xoe::capi::with_engine;
using xoe::capi::with_records;

extern "C" {

xoe_status xoe_records_open(const char* const* patterns, size_t count, const xoe_records_options* options,
                            xoe_records** records) {
  return guard([&] { return xoe::capi::open(nullptr, patterns, count, options, records); });
}

xoe_status xoe_records_open_on(xoe_engine* engine, const char* const* patterns, size_t count,
                               const xoe_records_options* options, xoe_records** records) {
  return with_engine(engine, [&](xoe::Engine&) { return xoe::capi::open(engine, patterns, count, options, records); });
}

void xoe_records_close(xoe_records* records) { xoe::capi::destroy(records); }

xoe_status xoe_records_next(xoe_records* records, xoe_record** record) {
  return with_records(records, [&](xoe_records& it) -> Status {
    XOE_TRY(xoe::capi::need(record, "record"));
    XOE_ASSIGN(auto made, it.iterator->next());
    *record = made ? new xoe::capi::OwnedRecord(std::move(*made)) : nullptr;
    if (made) ++it.delivered;
    return {};
  });
}

void xoe_record_release(xoe_record* record) { delete static_cast<xoe::capi::OwnedRecord*>(record); }

xoe_status xoe_records_skip(xoe_records* records, int64_t count, int64_t* passed) {
  return with_records(records, [&](xoe_records& it) -> Status {
    XOE_TRY(xoe::capi::need(passed, "passed"));
    XOE_ASSIGN(*passed, xoe::capi::skip(it, count));
    return {};
  });
}

xoe_status xoe_records_file(xoe_records* records, int64_t file, char** path, int64_t* count) {
  return with_records(records, [&](xoe_records& it) { return xoe::capi::file_of(it, file, path, count); });
}

xoe_status xoe_records_save(xoe_records* records, char** text) {
  return with_records(records, [&](const xoe_records& it) { return xoe::capi::save(it, text); });
}

xoe_status xoe_records_restore(xoe_records* records, const char* text) {
  return with_records(records, [&](xoe_records& it) { return xoe::capi::restore(it, text); });
}

xoe_status xoe_records_report(xoe_records* records, char** json) {
  return with_records(records, [&](const xoe_records& it) { return xoe::capi::report_of(it, json); });
}

}  // extern "C"
