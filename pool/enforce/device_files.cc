#include "pool/enforce/device_files.h"

#include <pwd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "core/base/text_file.h"

namespace xoe::pool {
namespace {

using Json = nlohmann::json;

// An access control list as the kernel has it (linux/posix_acl_xattr.h).
constexpr const char* kList = "system.posix_acl_access";
constexpr std::uint32_t kVersion = 2;
constexpr std::uint16_t kOwner = 0x01, kUser = 0x02, kGroup = 0x04, kMask = 0x10, kOther = 0x20;
constexpr std::uint16_t kReadWrite = 6;
constexpr std::uint32_t kNoId = 0xffffffff;

std::string list_for(const std::set<uid_t>& users) {
  std::string list;
  const auto add = [&](auto value) { list.append(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto entry = [&](std::uint16_t tag, std::uint16_t may, std::uint32_t id) {
    add(tag);
    add(may);
    add(id);
  };
  add(kVersion);
  entry(kOwner, kReadWrite, kNoId);
  for (const uid_t user : users) entry(kUser, kReadWrite, user);
  entry(kGroup, 0, kNoId);
  entry(kMask, kReadWrite, kNoId);
  entry(kOther, 0, kNoId);
  return list;
}

std::string hex_of(const std::string& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

// nvidia-modprobe, which every user can run and which is root then, gives the files the mode of the driver's parameters
// unless that is turned off.
Status check_parameters(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("ModifyDeviceFiles:") && trimmed(line.substr(line.find(':') + 1)) != "0")
      return failure(Code::kUnsupported,
                     "{} says \"{}\": every user could open all device files again by nvidia-modprobe; put \"options "
                     "nvidia NVreg_ModifyDeviceFiles=0\" into /etc/modprobe.d and load the driver again",
                     path, trimmed(line));
  return {};
}

}  // namespace

Result<std::optional<uid_t>> system_user_id(const std::string& name) {
  constexpr std::size_t kLongestEntry = std::size_t{1} << 20;
  passwd entry = {};
  passwd* found = nullptr;
  std::vector<char> text(4096);
  int error = 0;
  while ((error = ::getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found)) == ERANGE &&
         text.size() < kLongestEntry)
    text.resize(2 * text.size());
  if (error != 0) return failure(Code::kUnavailable, "{}", errno_text(error));
  return found == nullptr ? std::nullopt : std::optional(found->pw_uid);
}

Result<DeviceFiles> DeviceFiles::open(DevicePlaces places, UserId user_id) {
  if (::geteuid() != 0)
    return failure(Code::kInvalidArgument, "the owners and modes of device files can be changed by {} only", "root");
  XOE_TRY(check_parameters(places.parameters));
  DeviceFiles files(std::move(places), std::move(user_id));
  XOE_TRY(files.read_kept());
  return files;
}

DeviceFiles::~DeviceFiles() {
  if (before_.empty()) return;
  bool all = true;
  for (const auto& [file, access] : before_) {
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) all &= set_access(file, access).has_value();
  }
  if (all) ::unlink(places_.kept.c_str());
}

DeviceFiles::Allowed DeviceFiles::allow(const std::vector<GpuHolders>& gpus) {
  Allowed allowed;
  const DeviceMinors minors = device_minors(places_);
  std::map<std::string, std::string> file_of;             // by UUID
  std::map<std::string, std::set<std::string>> users_of;  // by file
  std::map<std::string, std::set<uid_t>> ids_of;
  for (const GpuHolders& gpu : gpus) {
    auto minor = minors.by_uuid.find(gpu.uuid);
    if (minor == minors.by_uuid.end() && gpu.uuid.starts_with("MIG-")) {
      minor = minors.by_pci.find(short_pci(gpu.pci));
      if (minor == minors.by_pci.end()) continue;
    } else if (minor == minors.by_uuid.end()) {
      continue;
    }
    const std::string file = fmt::format("{}/nvidia{}", places_.devices, minor->second);
    struct stat facts = {};
    if (::lstat(file.c_str(), &facts) != 0 || !S_ISCHR(facts.st_mode) ||
        facts.st_rdev != makedev(places_.major, minor->second))
      continue;
    file_of[gpu.uuid] = file;
    ids_of[file];
    for (const std::string& user : gpu.users) {
      const auto id = id_of(user);
      if (!id) {
        allowed.problems.push_back(fmt::format("{} holds {}, but {}", user, gpu.uuid, id.error().message()));
        continue;
      }
      users_of[file].insert(user);
      if (*id != 0) ids_of[file].insert(*id);
    }
  }
  forget_ids(gpus);
  std::set<std::string> done;
  for (const auto& [file, ids] : ids_of) {
    if (const Status set = restrict_to(file, ids); set)
      done.insert(file);
    else
      allowed.problems.push_back(set.error().message());
  }
  for (const auto& [uuid, file] : file_of)
    if (done.contains(file)) allowed.users[uuid] = users_of[file];
  return allowed;
}

Result<uid_t> DeviceFiles::id_of(const std::string& holder) {
  const auto told = user_id_(holder);
  if (told && *told) return ids_[holder] = **told;
  if (told) {
    ids_.erase(holder);
    return failure(Code::kInvalidArgument, "{}", "is no user of this host");
  }
  if (const auto known = ids_.find(holder); known != ids_.end()) return known->second;
  return failure(Code::kUnavailable, "the system does not tell its number now: {}", told.error().message());
}

// Of users who hold nothing any more.
void DeviceFiles::forget_ids(const std::vector<GpuHolders>& gpus) {
  std::erase_if(ids_, [&](const auto& known) {
    return std::ranges::none_of(gpus, [&](const GpuHolders& gpu) { return gpu.users.contains(known.first); });
  });
}

Result<DeviceFiles::Access> DeviceFiles::access_of(const std::string& file) {
  struct stat facts = {};
  if (::lstat(file.c_str(), &facts) != 0) return failure(Code::kUnavailable, "{}: {}", file, errno_text(errno));
  Access access{.owner = facts.st_uid, .group = facts.st_gid, .mode = facts.st_mode & 07777};
  std::array<char, 65536> list;
  const auto size = ::lgetxattr(file.c_str(), kList, list.data(), list.size());
  if (size > 0) access.list.assign(list.data(), static_cast<std::size_t>(size));
  return access;
}

// Closed in between, so that no moment lets in who may not.
Status DeviceFiles::set_access(const std::string& file, const Access& access) {
  const bool closed = ::chmod(file.c_str(), 0600) == 0;
  const bool listless = ::lremovexattr(file.c_str(), kList) == 0 || errno == ENODATA || errno == EOPNOTSUPP;
  const bool owned = ::lchown(file.c_str(), access.owner, access.group) == 0;
  const bool listed =
      access.list.empty() || ::lsetxattr(file.c_str(), kList, access.list.data(), access.list.size(), 0) == 0;
  if (closed && listless && owned && listed && ::chmod(file.c_str(), access.mode) == 0) return {};
  return failure(Code::kUnavailable, "{}: its owner and mode cannot be changed: {}", file, errno_text(errno));
}

Status DeviceFiles::restrict_to(const std::string& file, const std::set<uid_t>& users) {
  Access wanted{.mode = 0600};
  if (!users.empty()) {
    wanted.list = list_for(users);
    wanted.mode = 0660;  // of a file with such a list, the group's bits are those of its mask
  }
  XOE_ASSIGN(const Access now, access_of(file));
  if (now == wanted) return {};
  if (before_.emplace(file, now).second) XOE_TRY(write_kept());
  return set_access(file, wanted);
}

Status DeviceFiles::read_kept() {
  if (::access(places_.kept.c_str(), F_OK) != 0 && errno == ENOENT) return {};
  XOE_ASSIGN(const std::string text, read_text_file(places_.kept));
  try {
    const Json json = Json::parse(text);
    for (const auto& [file, access] : json.items())
      before_[file] = {.owner = access.at("owner").get<uid_t>(),
                       .group = access.at("group").get<gid_t>(),
                       .mode = access.at("mode").get<mode_t>(),
                       .list = bytes_of(access.at("list").get<std::string>())};
  } catch (const std::exception& error) {
    return failure(Code::kDataLoss,
                   "{}, where an agent kept the owners and modes of device files, cannot be read: {}; set them back by "
                   "hand and remove it",
                   places_.kept, error.what());
  }
  return {};
}

Status DeviceFiles::write_kept() const {
  Json json = Json::object();
  for (const auto& [file, access] : before_)
    json[file] = {
        {"owner", access.owner}, {"group", access.group}, {"mode", access.mode}, {"list", hex_of(access.list)}};
  return write_file(places_.kept, json.dump() + "\n");
}

}  // namespace xoe::pool
