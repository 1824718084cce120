// A store of files, one per key. Each appears whole or not at all.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "bootstrap/store.h"
#include "bootstrap/store_protocol.h"

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
    XOE_ASSIGN(const std::string token, random_token());
    const fs::path unfinished = folder_ / ("." + token);
    {
      Fd file(::open(unfinished.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
      const auto written = file.valid() ? ::write(file.get(), value.data(), value.size()) : -1;
      if (written != static_cast<ssize_t>(value.size()) || ::fsync(file.get()) != 0)
        return failure(Code::kUnavailable, "store: cannot write {}: {}", unfinished.string(), errno_text(errno));
    }
    // Unlike a rename, a link never replaces an existing file.
    const bool first = ::link(unfinished.c_str(), (folder_ / file_name(key)).c_str()) == 0;
    const int error = errno;
    ::unlink(unfinished.c_str());
    if (first) return {};
    if (error != EEXIST)
      return failure(Code::kUnavailable, "store: cannot make a file in {}: {}", folder_.string(), errno_text(error));
    if (read(key) == value) return {};
    return failure(Code::kInvalidArgument, "store: key {} is already set to another value", key);
  }

  Result<std::string> get(std::string_view key, std::chrono::nanoseconds timeout) override {
    const auto began = Clock::now();
    auto pause = std::chrono::milliseconds(1);
    while (true) {
      if (auto value = read(key)) return std::move(*value);
      if (Clock::now() - began >= timeout)
        return failure(Code::kTimeout, "store: no rank set {} in {} within {}", key, folder_.string(),
                       human_seconds(std::chrono::duration<double>(timeout).count()));
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::milliseconds(50));
    }
  }

  Result<std::vector<std::string>> get_all(std::span<const std::string> keys,
                                           std::chrono::nanoseconds timeout) override {
    const auto deadline = Clock::now() + timeout;
    std::vector<std::string> values;
    for (const std::string& key : keys) {
      XOE_ASSIGN(auto value, get(key, std::max(deadline - Clock::now(), Clock::duration(0))));
      values.push_back(std::move(value));
    }
    return values;
  }

 private:
  std::optional<std::string> read(std::string_view key) const {
    std::ifstream file(folder_ / file_name(key), std::ios::binary);
    if (!file) return std::nullopt;
    std::ostringstream text;
    text << file.rdbuf();
    return std::move(text).str();
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
