#include "data/record_index.h"

#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "data/random.h"

namespace xoe::data {
namespace {

// Descriptors are few (1024 by default); a large set is opened anew for each record, which costs microseconds.
constexpr std::size_t kMostOpenFiles = 256;

class RecordList final : public Iterator<RecordRef> {
 public:
  RecordList(std::shared_ptr<const RecordIndex> index, std::vector<std::size_t> order, std::int64_t epoch)
      : index_(std::move(index)), order_(std::move(order)), epoch_(epoch) {}

  Result<std::optional<RecordRef>> next() override {
    while (file_ < order_.size() && within_ == length(file_)) {
      ++file_;
      within_ = 0;
    }
    if (file_ == order_.size()) return std::nullopt;
    ++position_;
    return RecordRef{epoch_, index_->first(order_[file_]) + within_++};
  }
  State save() const override {
    State state;
    state.push("records.position", position_);
    return state;
  }
  Status restore(State state) override {
    XOE_ASSIGN(const std::int64_t position, state.pop("records.position"));
    if (position < 0 || position > index_->records())
      return failure(Code::kInvalidArgument, "saved position: record {} of {}", position, index_->records());
    position_ = within_ = position;
    for (file_ = 0; file_ < order_.size() && within_ > length(file_); ++file_) within_ -= length(file_);
    return {};
  }

 private:
  std::int64_t length(std::size_t at) const { return index_->first(order_[at] + 1) - index_->first(order_[at]); }

  std::shared_ptr<const RecordIndex> index_;
  std::vector<std::size_t> order_;  // of files
  std::int64_t epoch_;
  std::int64_t position_ = 0;
  std::size_t file_ = 0;  // in order_
  std::int64_t within_ = 0;
};

class RecordListStage final : public Stage<RecordRef> {
 public:
  RecordListStage(std::shared_ptr<const RecordIndex> index, bool shuffle_files, std::uint64_t seed)
      : index_(std::move(index)), shuffle_files_(shuffle_files), seed_(seed) {}

  Result<std::unique_ptr<Iterator<RecordRef>>> iterate(std::int64_t epoch) const override {
    std::vector<std::size_t> order(index_->files());
    std::iota(order.begin(), order.end(), std::size_t{0});
    Random random(seed_, static_cast<std::uint64_t>(epoch), order.size());
    for (std::size_t left = order.size(); shuffle_files_ && left > 1; --left)
      std::swap(order[left - 1], order[static_cast<std::size_t>(random.integer(0, static_cast<int>(left) - 1))]);
    return std::make_unique<RecordList>(index_, std::move(order), epoch);
  }
  std::optional<std::int64_t> size() const override { return index_->records(); }

 private:
  std::shared_ptr<const RecordIndex> index_;
  bool shuffle_files_;
  std::uint64_t seed_;
};

}  // namespace

Result<std::vector<std::string>> match_files(const std::string& directory, const std::string& pattern) {
  std::error_code error;
  std::vector<std::string> paths;
  std::filesystem::directory_iterator entries(directory, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    std::error_code ignored;
    if (::fnmatch(pattern.c_str(), entries->path().filename().c_str(), FNM_PERIOD) == 0 &&
        entries->is_regular_file(ignored))
      paths.push_back(entries->path().string());
  }
  if (error) return failure(Code::kUnavailable, "{}: cannot list the directory: {}", directory, error.message());
  if (paths.empty()) return failure(Code::kUnavailable, "{}: no file matches {}", directory, pattern);
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<RecordIndex::Part> RecordIndex::open_part(const std::string& path, bool keep_open) {
  XOE_ASSIGN(RecordFile file, RecordFile::open(path));
  XOE_ASSIGN(auto places, file.scan());
  Part part{.path = path, .file = std::nullopt, .places = std::move(places)};
  if (keep_open) part.file.emplace(std::move(file));
  return part;
}

Result<std::shared_ptr<const RecordIndex>> RecordIndex::open(const std::vector<std::string>& paths, int threads) {
  std::vector<std::optional<Result<Part>>> opened(paths.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < paths.size(); i = next++)
      opened[i].emplace(open_part(paths[i], paths.size() <= kMostOpenFiles));
  };
  {
    std::vector<std::jthread> helpers;
    const std::size_t most = std::min(paths.size(), static_cast<std::size_t>(std::max(threads, 1)));
    for (std::size_t i = 1; i < most; ++i) helpers.emplace_back(work);
    work();
  }
  auto index = std::make_shared<RecordIndex>();
  index->first_.push_back(0);
  for (auto& part : opened) {
    if (!*part) return failure(part->error());
    index->first_.push_back(index->first_.back() + static_cast<std::int64_t>((*part)->places.size()));
    index->parts_.push_back(std::move(**part));
  }
  return index;
}

RecordIndex::Where RecordIndex::where(std::int64_t record) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), record);
  const auto file = static_cast<std::size_t>(after - first_.begin()) - 1;
  return {parts_[file], record - first_[file]};
}

Result<std::string_view> RecordIndex::read(std::int64_t record, std::string& buffer) const {
  const Where at = where(record);
  if (at.part.file) return at.part.file->read(at.place(), at.number, buffer);
  XOE_ASSIGN(const RecordFile file, RecordFile::open(at.part.path));
  return file.read(at.place(), at.number, buffer);
}

std::string RecordIndex::name(std::int64_t record) const {
  const Where at = where(record);
  return record_name(at.part.path, at.number, at.place().offset);
}

StagePtr<RecordRef> list_records(std::shared_ptr<const RecordIndex> index, bool shuffle_files, std::uint64_t seed) {
  return std::make_shared<RecordListStage>(std::move(index), shuffle_files, seed);
}

}  // namespace xoe::data
