#include "core/bootstrap/user_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/output_file.h"
#include "core/bootstrap/proof.h"

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
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  if (const auto created = create_private_file(path, make_nonce()); !created)
    return failure(created.error().code(), "the key of this user: {}; set XOE_SECRET or XOE_KEY_FILE",
                   created.error().message());
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
