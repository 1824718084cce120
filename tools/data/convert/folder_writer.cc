#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/fd.h"
#include "base/output_file.h"
#include "tools/data/convert/shard_writer.h"

namespace xoe::data {
namespace {

// One folder per class; each file appears whole or not at all, and finish() flushes all of them at once, as a flush for
// each would take most of the time.
class FolderShard final : public ShardWriter {
 public:
  explicit FolderShard(const ShardLayout& layout) : layout_(layout), root_(layout.path(0)) {}

  Status write(const ConvertedImage& image) override {
    XOE_ASSIGN(const std::string folder, folder_of(image.label));
    XOE_ASSIGN(OutputFile file, OutputFile::create(fmt::format("{}/{}", folder, image.name)));
    XOE_TRY(file.write(image.picture.bytes));
    XOE_TRY(file.finish_unflushed());
    bytes_ += image.picture.bytes.size();
    return {};
  }
  Status finish() override {
    const Fd root(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (root.valid() && ::syncfs(root.get()) == 0) return {};
    return failure(Code::kUnavailable, "{}: cannot flush: {}", root_, errno_text(errno));
  }
  std::uint64_t bytes() const override { return bytes_; }

 private:
  Result<std::string> folder_of(std::int64_t label) {
    std::string path = fmt::format("{}/{}", root_, layout_.class_name(label));
    if (!made_.insert(label).second) return path;
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return failure(Code::kUnavailable, "{}: cannot make the folder: {}", path, error.message());
    return path;
  }

  const ShardLayout& layout_;
  std::string root_;
  std::set<std::int64_t> made_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<ShardWriter>> create_folder_shard(const ShardLayout& layout) {
  return std::make_unique<FolderShard>(layout);
}

}  // namespace xoe::data
