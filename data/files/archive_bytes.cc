#include "data/files/archive_bytes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace xoe::data {
namespace {

constexpr std::size_t kStep = std::size_t{64} << 10;
constexpr std::size_t kKept = std::size_t{2} << 20;  // bytes that were read

class PlainBytes final : public ArchiveBytes {
 public:
  explicit PlainBytes(std::shared_ptr<const OpenFile> file) : file_(std::move(file)) {}

  Result<std::size_t> read_at(std::uint64_t offset, char* to, std::size_t count) override {
    if (offset >= file_->bytes) return 0;
    count = static_cast<std::size_t>(std::min<std::uint64_t>(count, file_->bytes - offset));
    XOE_TRY(file_->read_at(offset, to, count));
    return count;
  }
  std::optional<std::uint64_t> size() const override { return file_->bytes; }

 private:
  std::shared_ptr<const OpenFile> file_;
};

class InflatedBytes final : public ArchiveBytes {
 public:
  explicit InflatedBytes(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  Result<std::size_t> read_at(std::uint64_t offset, char* to, std::size_t count) override {
    XOE_TRY(move_to(offset));
    if (offset > end()) return 0;
    while (!ended_ && end() < offset + count) XOE_TRY(read_more());
    const auto at = static_cast<std::size_t>(offset - base_);
    count = std::min(count, kept_.size() - at);
    std::memcpy(to, kept_.data() + at, count);
    if (kept_.size() > 2 * kKept) drop(kept_.size() - kKept);
    return count;
  }
  std::optional<std::uint64_t> size() const override { return ended_ || broken_ ? std::optional(end()) : std::nullopt; }

 private:
  std::uint64_t end() const noexcept { return base_ + kept_.size(); }  // of what was read

  // Reads up to an offset, or to the end if that comes first, and keeps nothing before.
  Status move_to(std::uint64_t offset) {
    if (offset < base_) {
      XOE_TRY(source_->seek(offset));
      base_ = offset;
      kept_.clear();
      ended_ = broken_ = false;
    }
    while (!ended_ && end() < offset) {
      drop(kept_.size());
      XOE_TRY(read_more());
    }
    return {};
  }
  Status read_more() {
    const std::size_t had = kept_.size();
    kept_.resize(had + kStep);
    const auto got = source_->read(kept_.data() + had, kStep);
    kept_.resize(had + got.value_or(0));
    broken_ = !got;
    if (!got) return failure(got.error());
    ended_ = *got == 0;
    return {};
  }
  void drop(std::size_t bytes) {
    kept_.erase(0, bytes);
    base_ += bytes;
  }

  std::unique_ptr<ByteSource> source_;
  std::string kept_;
  std::uint64_t base_ = 0;  // of kept_
  bool ended_ = false;
  bool broken_ = false;  // and nothing more can be read
};

}  // namespace

bool is_gzip(const OpenFile& file) {
  std::array<char, 2> magic = {};
  return file.bytes >= magic.size() && file.read_at(0, magic.data(), magic.size()) && magic[0] == '\x1f' &&
         magic[1] == '\x8b';
}

std::unique_ptr<ArchiveBytes> archive_bytes(std::shared_ptr<const OpenFile> file, RestartPoints* points) {
  if (!is_gzip(*file)) return std::make_unique<PlainBytes>(std::move(file));
  return std::make_unique<InflatedBytes>(inflate_source(std::move(file), Compression::kGzip, points));
}

}  // namespace xoe::data
