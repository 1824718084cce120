// cache_file(): keeps elements in a record file.
#include <sys/stat.h>

#include <algorithm>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "data/records/record_index.h"
#include "data/stages/iterator_base.h"
#include "xoe/data/record_writer.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace {

bool is_there(const std::string& path) {
  struct stat facts = {};
  return ::stat(path.c_str(), &facts) == 0;
}

// Shared by all iterators: the file once it exists, and the claim of the one iterator that writes it.
class CacheFile {
 public:
  CacheFile(AnyStagePtr upstream, std::string path) : upstream_(std::move(upstream)), path_(std::move(path)) {}

  const AnyStage& upstream() const { return *upstream_; }

  // Opens the file if it exists by now; null: not yet.
  Result<std::shared_ptr<const RecordIndex>> file() {
    const std::lock_guard lock(mutex_);
    if (index_ == nullptr && is_there(path_)) {
      XOE_ASSIGN(index_, RecordIndex::open({path_}, {}));
    }
    return index_;
  }

  // True for the first caller while no iterator writes the file: the caller writes it.
  bool claim() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(claimed_, true);
  }
  void give_up() {
    const std::lock_guard lock(mutex_);
    claimed_ = false;
  }

  Result<std::unique_ptr<AnyIterator>> walk() const { return upstream_->iterate_any(0); }
  Result<RecordWriter> writer() const { return RecordWriter::create(path_); }

 private:
  AnyStagePtr upstream_;
  std::string path_;
  std::mutex mutex_;
  std::shared_ptr<const RecordIndex> index_;
  bool claimed_ = false;
};

// Reads the file, or the upstream while there is no file; the first iterator that runs from beginning to end writes it.
class CacheFileWalk final : public Produces<CacheFileWalk, PositionedIterator> {
 public:
  explicit CacheFileWalk(std::shared_ptr<CacheFile> cache)
      : Produces("cache_file", kElementType<std::string>), cache_(std::move(cache)) {}
  ~CacheFileWalk() override { drop_writer(); }

  Status open() {
    drop_writer();
    position_ = 0;
    source_.reset();
    XOE_ASSIGN(index_, cache_->file());
    if (index_ != nullptr) return {};
    XOE_ASSIGN(source_, cache_->walk());
    if (cache_->claim()) {
      auto writer = cache_->writer();
      if (!writer) {
        cache_->give_up();
        return failure(writer.error());
      }
      writer_.emplace(std::move(*writer));
    }
    return {};
  }

  Result<bool> produce(Slot& slot) override { return index_ != nullptr ? from_file(slot) : from_upstream(slot); }
  Result<bool> pass_over(std::int64_t count) override {
    if (index_ == nullptr) return IteratorBase::pass_over(count);
    return jump(count, index_->records());
  }

 private:
  Status rewind() override { return open(); }
  std::vector<StageReport> inputs() const override {
    return source_ == nullptr ? std::vector<StageReport>() : source_->stages();
  }

  Result<bool> from_file(Slot& slot) {
    if (position_ == index_->records()) return false;
    XOE_ASSIGN(const std::string_view data, index_->read(position_, buffer_));
    ++position_;
    slot.put(std::string(data));
    return true;
  }
  Result<bool> from_upstream(Slot& slot) {
    detail::Pulled<std::string> element(*source_);
    if (element.next() == Next::kError) return failure(element.error());
    if (element) {
      ++position_;
      if (writer_) XOE_TRY(writer_->write(element.take()));
      slot.put(element.take());
      return true;
    }
    if (writer_) {
      XOE_TRY(writer_->finish());
      writer_.reset();
    }
    return false;
  }
  void drop_writer() {
    if (!writer_) return;
    writer_.reset();
    cache_->give_up();
  }

  std::shared_ptr<CacheFile> cache_;
  std::shared_ptr<const RecordIndex> index_;  // null: not written yet
  std::unique_ptr<AnyIterator> source_;
  std::optional<RecordWriter> writer_;
  std::string buffer_;
};

}  // namespace

StagePtr<std::string> cache_file(StagePtr<std::string> upstream, std::string path) {
  const auto cache = std::make_shared<CacheFile>(std::move(upstream), std::move(path));
  return detail::typed<std::string>(make_stage(
      kElementType<std::string>, [=](std::int64_t) { return opened<CacheFileWalk>(cache); },
      [=]() -> std::optional<std::int64_t> {
        if (const auto file = cache->file(); file && *file != nullptr) return (*file)->records();
        return cache->upstream().size();
      }));
}

}  // namespace xoe::data
