// A store of files, one per key. Each appears whole or not at all.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "core/bootstrap/store.h"
#include "core/bootstrap/store_protocol.h"

namespace xoe::bootstrap {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The file name of a key.
std::string file_name(std::string_view key) {
  std::string name;
  for (const char c : key) name += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return name;
}

class FileStore final : public Store {
 public:
  FileStore(fs::path folder, bool owner) : folder_(std::move(folder)), owner_(owner) {}
  ~FileStore() override {
    std::error_code ignored;
    if (owner_) fs::remove_all(folder_, ignored);
  }

  Status set(std::string_view key, std::string_view value) override {
    if (key.empty() || key.size() > 100 || value.size() > kMaxValue)
      return failure(Code::kInvalidArgument, "store: {} bytes of key and {} of value do not fit", key.size(),
                     value.size());
    const auto created = create_private_file(folder_ / file_name(key), value);
    if (!created) return failure(created.error().code(), "store: {}", created.error().message());
    if (*created) return {};
    if (read(key) == value) return {};
    return failure(
        Code::kInvalidArgument,
        "store: {} has another value of key {} already: another job of this name runs, or one that was killed "
        "has left the folder; remove it in that case",
        folder_.string(), key);
  }

  Status remove(std::span<const std::string> keys) override {
    for (const std::string& key : keys) ::unlink((folder_ / file_name(key)).c_str());
    return {};
  }

  Result<std::vector<std::string>> get_all(std::span<const std::string> keys,
                                           std::chrono::nanoseconds timeout) override {
    const auto deadline = Clock::now() + timeout;
    std::vector<std::string> values;
    for (const std::string& key : keys) {
      auto pause = std::chrono::milliseconds(1);
      auto value = read(key);
      for (; !value && Clock::now() < deadline; value = read(key)) {
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, std::chrono::milliseconds(50));
      }
      if (!value)
        return failure(Code::kTimeout, "store: no rank set {} in {} within {}", key, folder_.string(),
                       human_seconds(timeout));
      values.push_back(std::move(*value));
    }
    return values;
  }

 private:
  std::optional<std::string> read(std::string_view key) const {
    return read_start(folder_ / file_name(key), kMaxValue);
  }

  fs::path folder_;
  bool owner_;
};

}  // namespace

Result<std::unique_ptr<Store>> open_file_store(const std::string& folder, const std::string& job, int rank) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return failure(Code::kInvalidArgument, "XOE_STORE=file:{}: there is no such folder", folder);
  const fs::path own = fs::path(folder) / fmt::format("xoe-{}-{}", ::geteuid(), job);
  struct stat seen {};
  if (::mkdir(own.c_str(), 0700) != 0 && errno != EEXIST)
    return failure(Code::kUnavailable, "XOE_STORE=file:{}: {}", folder, errno_text(errno));
  if (::lstat(own.c_str(), &seen) != 0 || !S_ISDIR(seen.st_mode) || seen.st_uid != ::geteuid() ||
      (seen.st_mode & 077) != 0)
    return failure(Code::kUnavailable, "XOE_STORE: {} must be a folder that only this user can access", own.string());
  return std::make_unique<FileStore>(own, rank == 0);
}

}  // namespace xoe::bootstrap
