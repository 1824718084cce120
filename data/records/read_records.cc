#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "data/records/record_stream.h"
#include "data/stages/iterator_base.h"
#include "xoe/data/records.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace {

class RecordReader final : public Produces<RecordReader> {
 public:
  RecordReader(std::string path, RecordOptions options)
      : Produces("read_records", kElementType<Record>), path_(std::move(path)), options_(std::move(options)) {
    resolve_bad_limit(options_);
  }

  Status open() {
    auto opened = RecordStream::open(path_, options_.compression, options_.block_bytes);
    ended_ = !opened;
    if (!opened) {
      unopened_ = opened.error().message();
      return lost(opened.error().code(), unopened_);
    }
    stream_.emplace(std::move(*opened));
    return {};
  }

  Result<bool> produce(Slot& slot) override {
    while (!ended_) {
      const std::uint64_t offset = stream_->offset();
      auto record = read();
      if (record && !*record) return false;
      if (record) {
        (*record)->number = number_++;
        slot.put(std::move(**record));
        return true;
      }
      XOE_TRY(pass(record.error(), offset));
    }
    return false;
  }

  State save() const override {
    State state;
    state.push("records.offset", ended_ ? kEnded : static_cast<std::int64_t>(stream_->offset()));
    state.push("records.number", number_);
    state.push("records.bad", bad_);
    return state;
  }
  Status resume(State state) override {
    XOE_ASSIGN(bad_, state.pop("records.bad"));
    XOE_ASSIGN(number_, state.pop("records.number"));
    XOE_ASSIGN(const std::int64_t offset, state.pop("records.offset"));
    ended_ = !stream_ || offset == kEnded;
    // A file that vanished since the position was saved counts once more; open() has reported it already.
    if (!stream_ && offset != kEnded) XOE_TRY(count_bad(unopened_));
    if (ended_) return {};
    if (offset < 0) return failure(Code::kInvalidArgument, "{}: saved position: byte {}", path_, offset);
    return stream_->seek(static_cast<std::uint64_t>(offset));
  }

 private:
  static constexpr std::int64_t kEnded = -1;  // in extent of an offset

  Result<std::optional<Record>> read() {
    XOE_ASSIGN(const auto extent, stream_->locate());
    if (!extent) return std::nullopt;
    XOE_ASSIGN(const std::string_view data, stream_->take(*extent));
    return Record{data, 0, extent->offset, stream_->memory()};
  }

  // Moves behind damage where OnError::kSkip asks for it.
  Status pass(const Error& error, std::uint64_t offset) {
    std::string message = fmt::format("{}: {}", record_name(path_, number_, offset), error.message());
    if (options_.on_error == OnError::kFail) return failure(error.code(), std::move(message));
    ++number_;
    if (!stream_->broken() && stream_->offset() == offset) {
      // A failure of the stream during the search belongs to this damage.
      const Status found = stream_->resynchronise();
      message += fmt::format("; left out up to byte {}", stream_->offset());
      if (!found) message += ": " + found.error().message();
    }
    if (stream_->broken()) {
      message += "; the rest of the file is left out";
      ended_ = true;
    }
    return lost(error.code(), std::move(message));
  }
  Status lost(Code code, std::string message) {
    if (options_.on_error == OnError::kFail) return failure(code, std::move(message));
    if (options_.bad) options_.bad->add(message);
    return count_bad(message);
  }
  Status count_bad(const std::string& message) {
    if (++bad_ <= options_.max_bad) return {};
    return failure(Code::kDataLoss, "more than {} bad records; the last one: {}", options_.max_bad, message);
  }

  std::string path_;
  RecordOptions options_;
  std::optional<RecordStream> stream_;  // empty where the file cannot be opened
  std::string unopened_;                // why, then
  bool ended_ = false;                  // nothing more can be read
  std::int64_t number_ = 0;
  std::int64_t bad_ = 0;
};

}  // namespace

std::string_view compression_name(Compression compression) noexcept {
  switch (compression) {
    case Compression::kAuto: return "auto";
    case Compression::kNone: return "plain";
    case Compression::kGzip: return "gzip";
    case Compression::kZlib: return "zlib";
  }
  return "?";
}

void BadRecords::add(std::string message) {
  const std::lock_guard lock(mutex_);
  ++count_;
  if (messages_.size() < kMostMessages) messages_.push_back(std::move(message));
}
void BadRecords::add_unnamed(std::int64_t count) {
  const std::lock_guard lock(mutex_);
  count_ += count;
}
std::int64_t BadRecords::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}
std::string BadRecords::first() const {
  const std::lock_guard lock(mutex_);
  return messages_.empty() ? std::string() : messages_.front();
}
std::vector<std::string> BadRecords::messages() const {
  const std::lock_guard lock(mutex_);
  return messages_;
}
std::string BadRecords::text() const {
  constexpr std::ptrdiff_t kMostNamed = 5;
  const std::lock_guard lock(mutex_);
  const auto named = std::min<std::ptrdiff_t>(std::ssize(messages_), kMostNamed);
  std::string text = fmt::format("{}", fmt::join(messages_.begin(), messages_.begin() + named, "; "));
  if (count_ > named) text += fmt::format("{}{} more", text.empty() ? "" : "; and ", count_ - named);
  return text;
}

StagePtr<Record> read_records(std::string path, RecordOptions options) {
  return detail::typed<Record>(make_stage(
      kElementType<Record>,
      [path = std::move(path), options = std::move(options)](std::int64_t) {
        return opened<RecordReader>(path, options);
      },
      [] { return std::optional<std::int64_t>(); }));
}

}  // namespace xoe::data
