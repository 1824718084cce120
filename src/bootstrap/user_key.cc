#include "bootstrap/user_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/fd.h"
#include "bootstrap/proof.h"
#include "bootstrap/store.h"

namespace xoe::bootstrap {
namespace {

Result<std::string> read_key(const std::filesystem::path& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return failure(Code::kUnavailable, "cannot read the key {}: {}", path.string(), errno_text(errno));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0)
    return failure(Code::kUnavailable, "the key {} must be accessible to this user only: chmod 600 it", path.string());
  std::array<char, 256> bytes;
  const auto count = ::read(file.get(), bytes.data(), bytes.size());
  if (count < 16) return failure(Code::kUnavailable, "the key {} is too short; remove it", path.string());
  return std::string(bytes.data(), static_cast<std::size_t>(count));
}

// Several ranks may do this at a time: the first one's file stays.
Status make_key(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  XOE_ASSIGN(const std::string token, random_token());
  const std::filesystem::path unfinished = path.string() + "." + token;
  {
    const Fd file(::open(unfinished.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    const std::string key = make_nonce();
    if (!file.valid() || ::write(file.get(), key.data(), key.size()) != static_cast<ssize_t>(key.size()))
      return failure(Code::kUnavailable, "cannot make the key {}: {}; set XOE_SECRET or XOE_KEY_FILE", path.string(),
                     errno_text(errno));
  }
  if (::link(unfinished.c_str(), path.c_str()) != 0 && errno != EEXIST)
    error = std::error_code(errno, std::generic_category());
  else
    error.clear();
  ::unlink(unfinished.c_str());
  if (error) return failure(Code::kUnavailable, "cannot make the key {}: {}", path.string(), error.message());
  return {};
}

}  // namespace

Result<std::string> job_secret(const Env& env, std::string_view job) {
  if (const auto given = env.text("XOE_SECRET")) return *given;
  std::filesystem::path path = env.text("XOE_KEY_FILE").value_or("");
  if (path.empty()) {
    const auto home = env.text("HOME");
    if (!home)
      return failure(Code::kUnavailable,
                     "no secret for ranks on several hosts: neither XOE_SECRET, XOE_KEY_FILE nor HOME is set");
    path = std::filesystem::path(*home) / ".config" / "xoe" / "key";
  }
  if (::access(path.c_str(), F_OK) != 0) XOE_TRY(make_key(path));
  XOE_ASSIGN(const std::string key, read_key(path));
  std::string secret;
  for (const char c : make_proof(key, End::kServer, job, "job"))
    secret += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return secret;
}

}  // namespace xoe::bootstrap
