#include <algorithm>
#include <span>

#include "core/base/text.h"
#include "launch/doctor/checks/mounts.h"

namespace xoe::doctor {
namespace {

constexpr std::size_t kMostRemote = 1024;
constexpr std::string_view kRemoteTypes[] = {"nfs",    "nfs4",  "cifs",      "smb3",    "smbfs", "lustre",
                                             "gpfs",   "ceph",  "glusterfs", "9p",      "afs",   "beegfs",
                                             "wekafs", "pvfs2", "panfs",     "virtiofs"};
// Those of the user's own programs (FUSE) that reach other machines.
constexpr std::string_view kRemotePrograms[] = {"fuse.glusterfs", "fuse.ceph",      "fuse.juicefs", "fuse.sshfs",
                                                "fuse.s3fs",      "fuse.gcsfuse",   "fuse.goofys",  "fuse.rclone",
                                                "fuse.mount-s3",  "fuse.blobfuse2", "fuse.weka"};
constexpr std::string_view kPlaces[] = {"VIRTUAL_ENV", "CONDA_PREFIX", "TMPDIR"};

bool is_among(std::span<const std::string_view> list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

bool is_remote(const Mount& mount) {
  return is_among(kRemoteTypes, mount.type) || is_among(kRemotePrograms, mount.type) || mount.is_mountpoint_s3();
}

// 9p also goes over the network, as its option says.
bool is_handed_in(const Mount& mount) {
  const std::string way = mount.value("trans");
  return mount.type == "virtiofs" || (mount.type == "9p" && way != "tcp" && way != "rdma");
}

// Blanks and backslashes stand in octal: "/my\040data".
std::string unescaped(std::string_view text) {
  const auto is_octal = [](char digit) { return digit >= '0' && digit <= '7'; };
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 3 < text.size() && std::ranges::all_of(text.substr(at + 1, 3), is_octal)) {
      plain += static_cast<char>((text[at + 1] - '0') << 6 | (text[at + 2] - '0') << 3 | (text[at + 3] - '0'));
      at += 3;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

bool lies_below(std::string_view path, std::string_view point) {
  if (point == "/") return path.starts_with('/');
  return path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/');
}

std::vector<Mount> all_mounts(std::string_view text) {
  std::vector<Mount> mounts;
  for (const std::string& line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() < 4) continue;
    mounts.push_back({.point = unescaped(words[1]),
                      .type = words[2],
                      .source = unescaped(words[0]),
                      .options = split_text(words[3], ',')});
  }
  return mounts;
}

// The file system of a path: the deepest mount point above it, and of two at one point the later.
const Mount* mount_of(const std::vector<Mount>& mounts, std::string_view path) {
  const Mount* found = nullptr;
  for (const Mount& mount : mounts)
    if (lies_below(path, mount.point) && (found == nullptr || mount.point.size() >= found->point.size()))
      found = &mount;
  return found;
}

}  // namespace

bool Mount::has(std::string_view option) const { return std::ranges::find(options, option) != options.end(); }

std::string Mount::value(std::string_view key) const {
  for (const std::string& option : options)
    if (option.size() > key.size() && option.starts_with(key) && option[key.size()] == '=')
      return option.substr(key.size() + 1);
  return {};
}

bool Mount::is_windows() const {
  return (type == "9p" || type == "virtiofs") && (value("aname").starts_with("drvfs") || source.starts_with("drvfs") ||
                                                  (source.size() >= 2 && source[1] == ':'));
}

bool Mount::is_mountpoint_s3() const { return type == "fuse" && source == "mountpoint-s3"; }

MountFacts read_mounts(const Tree& tree) {
  MountFacts facts;
  const auto text = tree.text("/proc/self/mounts");
  facts.known = text.has_value();
  const auto mounts = all_mounts(text.value_or(""));
  for (const Mount& mount : mounts) {
    auto& list = is_handed_in(mount) ? facts.handed_in : facts.remote;
    if (is_remote(mount) && list.size() < kMostRemote) list.push_back(mount);
  }
  const Env env = environment_of(tree);
  for (const std::string_view variable : kPlaces) {
    const std::string path = env.text(variable).value_or("");
    const Mount* const mount = mount_of(mounts, path);
    if (mount == nullptr || !is_remote(*mount)) continue;
    // A folder that a virtual machine's host hands in is near, unless Windows does.
    if (!is_handed_in(*mount) || mount->is_windows())
      facts.places.push_back(
          {.variable = std::string(variable), .path = path, .point = mount->point, .windows = mount->is_windows()});
  }
  return facts;
}

}  // namespace xoe::doctor
