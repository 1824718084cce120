#include "launch/doctor/checks/mounts.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/text.h"

namespace xoe::doctor {
namespace {

constexpr std::int64_t kSmallTransfer = 64 << 10;  // bytes; servers offer 128 KiB to 1 MiB
constexpr std::int64_t kLongCache = 60;            // seconds; the kernel's own limit for NFS
constexpr std::int64_t kFastCard = 25'000;         // Mbit/s; one TCP connection seldom fills it

constexpr std::size_t kMostNamed = 8;  // mounts in one line

// They keep locks to themselves, and copy a file to rename it.
constexpr std::string_view kObjectStores[] = {"fuse.sshfs",  "fuse.s3fs",     "fuse.gcsfuse",  "fuse.goofys",
                                              "fuse.rclone", "fuse.mount-s3", "fuse.blobfuse2"};

bool is_nfs(const Mount& mount) { return mount.type == "nfs" || mount.type == "nfs4"; }

std::string name_of(const Mount& mount) { return fmt::format("{} ({} of {})", mount.point, mount.type, mount.source); }

// How its locks exclude programs of other hosts: empty if they do.
std::string why_locks_are_local(const Mount& mount) {
  if (mount.has("ro")) return {};
  if (is_nfs(mount)) {
    const std::string local = mount.value("local_lock");
    if (mount.has("nolock")) return "nolock";
    return local.empty() || local == "none" ? "" : "local_lock=" + local;
  }
  if (mount.type == "lustre") return mount.has("localflock") && !mount.has("flock") ? "localflock" : "";
  if (mount.type == "cifs" || mount.type == "smb3") return mount.has("nobrl") ? "nobrl" : "";
  if (mount.is_mountpoint_s3()) return mount.source;
  return std::ranges::find(kObjectStores, mount.type) != std::end(kObjectStores) ? mount.type : "";
}

// Lustre answers locks with an error where it was mounted without an option for them. Empty: it takes them.
std::string why_locks_are_refused(const Mount& mount) {
  if (mount.type != "lustre" || mount.has("ro")) return {};
  return mount.has("flock") || mount.has("localflock") ? "" : "no flock";
}

// SMB is soft unless it is mounted otherwise, so that the option says nothing about it.
bool is_soft(const Mount& mount) { return is_nfs(mount) && (mount.has("soft") || mount.has("softerr")); }

std::string small_transfer(const Mount& mount) {
  std::string small;
  for (const std::string_view key : {"rsize", "wsize"})
    if (const auto bytes = parse_integer(mount.value(key)); is_nfs(mount) && bytes && *bytes < kSmallTransfer)
      small += fmt::format("{}{}={}", small.empty() ? "" : ", ", key, *bytes);
  if (mount.value("proto").starts_with("udp")) small += fmt::format("{}proto=udp", small.empty() ? "" : ", ");
  return small;
}

// Each look at a file asks the server again, whose answer is not kept.
bool keeps_no_attributes(const Mount& mount) {
  return is_nfs(mount) && (mount.has("noac") || mount.value("acregmax") == "0" || mount.value("acdirmax") == "0" ||
                           mount.value("lookupcache") == "none");
}

// Seconds for which a file of another host may stay unseen, where that is more than usual.
std::optional<std::int64_t> long_cache(const Mount& mount) {
  if (!is_nfs(mount) || mount.has("ro")) return std::nullopt;
  const auto seconds = parse_integer(mount.value("acdirmax"));
  return seconds && *seconds > kLongCache ? seconds : std::nullopt;
}

// "/data, /home and 3 more": the first of `names`.
std::string first_of(const std::vector<std::string>& names, std::size_t most) {
  const auto shown = std::min(names.size(), most);
  std::string all =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) all += fmt::format(" and {} more", names.size() - shown);
  return all;
}

// "/data (nolock), /scratch (localflock)": the mounts of which `reason` says something.
template <class Reason>
std::string those_with(const std::vector<Mount>& mounts, Reason reason) {
  std::vector<std::string> all;
  for (const Mount& mount : mounts)
    if (const std::string why = reason(mount); !why.empty()) all.push_back(fmt::format("{} ({})", mount.point, why));
  return first_of(all, kMostNamed);
}

std::string first_names(const std::vector<Mount>& mounts) {
  std::vector<std::string> names;
  for (const Mount& mount : mounts) names.push_back(name_of(mount));
  return first_of(names, 4);
}

Finding check_list(const MountFacts& facts) {
  Finding finding{.id = "files.remote",
                  .what = "no file system of another machine is mounted",
                  .why =
                      "data sets, checkpoints and environments are as fast and as safe as the server and the mount "
                      "options let them be"};
  const auto json_of = [&finding](const std::vector<Mount>& mounts) {
    Json list = Json::array();
    for (const Mount& mount : mounts) {
      list.push_back({{"at", mount.point}, {"type", mount.type}, {"source", mount.source}, {"options", mount.options}});
      finding.table += fmt::format("{}: {}\n", name_of(mount), fmt::join(mount.options, ","));
    }
    return list;
  };
  finding.details["mounts"] = json_of(facts.remote);
  finding.details["handed_in"] = json_of(facts.handed_in);
  if (!facts.known) {
    finding.report(Severity::kSkipped, "/proc/self/mounts cannot be read");
  } else if (!facts.remote.empty()) {
    finding.what = fmt::format("{} from other machines: {}", counted(std::ssize(facts.remote), "file system"),
                               first_names(facts.remote));
  }
  if (!facts.handed_in.empty())
    finding.what += fmt::format("; {} of this machine's host: {}", counted(std::ssize(facts.handed_in), "file system"),
                                first_names(facts.handed_in));
  return finding;
}

Finding check_locks(const MountFacts& facts) {
  Finding finding{.id = "files.locks",
                  .what = "no mount option makes locks local",
                  .why =
                      "locks keep hosts from writing one timeline or data set at once, and say whether the writer of "
                      "an unfinished checkpoint still lives: without them one host removes what another writes"};
  const std::string local = those_with(facts.remote, why_locks_are_local);
  const std::string refused = those_with(facts.remote, why_locks_are_refused);
  finding.details = {{"local", local}, {"refused", refused}};
  if (local.empty() && refused.empty()) return finding;
  std::string seen;
  if (!local.empty()) seen = fmt::format("locks of files hold on this host alone: {}", local);
  if (!refused.empty()) seen += fmt::format("{}locks are refused: {}", seen.empty() ? "" : "; ", refused);
  finding.report(Severity::kWarning, seen,
                 "NFS: mount without nolock and local_lock (version 3 needs rpc.statd and port access to lockd; "
                 "version 4 needs neither); Lustre: -o flock; SMB: without nobrl; object stores: write checkpoints and "
                 "timelines elsewhere");
  return finding;
}

Finding check_errors(const MountFacts& facts) {
  Finding finding{.id = "files.errors",
                  .what = "no NFS mount is soft: a server that does not answer is waited for",
                  .why =
                      "with soft, a server that is busy for longer than timeo makes reads and writes fail: a training "
                      "ends with an input or output error, and a checkpoint may be cut off"};
  const std::string soft = those_with(facts.remote, [](const Mount& mount) {
    return !is_soft(mount) ? "" : mount.has("ro") ? "soft, ro" : "soft";
  });
  const bool written =
      std::ranges::any_of(facts.remote, [](const Mount& mount) { return is_soft(mount) && !mount.has("ro"); });
  finding.details = {{"soft", soft}};
  if (soft.empty()) return finding;
  finding.report(written ? Severity::kWarning : Severity::kNote,
                 fmt::format("a server that does not answer in time makes reads and writes fail: {}", soft),
                 "mount with hard, which is the default");
  return finding;
}

Finding check_transfer(const MountFacts& facts, std::optional<std::int64_t> mbit) {
  Finding finding{.id = "files.transfer",
                  .what = "no mount option makes requests to the servers small",
                  .why = "each request waits for the network once: small ones read a data set slowly"};
  const std::string small = those_with(facts.remote, small_transfer);
  const std::string single = those_with(facts.remote, [](const Mount& mount) {
    return is_nfs(mount) && mount.value("proto").starts_with("tcp") && mount.value("nconnect").empty() ? "nconnect=1"
                                                                                                       : "";
  });
  finding.details = {{"small", small}, {"one_connection", single}};
  if (!small.empty()) {
    finding.report(Severity::kWarning, fmt::format("requests to the servers are small: {}", small),
                   "mount without rsize and wsize, so that the server's own sizes hold (128 KiB to 1 MiB), over TCP");
  } else if (!single.empty() && mbit.value_or(0) >= kFastCard) {
    finding.report(Severity::kNote, fmt::format("one TCP connection carries all requests: {}", single),
                   "where the data set is read over a fast card: mount with nconnect=8 (Linux 5.3), or over RDMA "
                   "(proto=rdma) where the server has it; name a scale-out server (PowerScale SmartConnect) by its "
                   "name, not by an address, so that hosts are spread over its nodes");
  }
  return finding;
}

Finding check_attributes(const MountFacts& facts) {
  Finding finding{.id = "files.attributes",
                  .what = "no mount option changes how long attributes of files are cached",
                  .why =
                      "what is kept saves a request for each open of a small file; what is kept for long hides the "
                      "newest checkpoint of another host"};
  const std::string none =
      those_with(facts.remote, [](const Mount& mount) { return keeps_no_attributes(mount) ? "not kept" : ""; });
  const std::string longer = those_with(facts.remote, [](const Mount& mount) {
    const auto seconds = long_cache(mount);
    return seconds ? fmt::format("acdirmax={}", *seconds) : "";
  });
  finding.details = {{"not_kept", none}, {"longer", longer}};
  if (!none.empty()) {
    finding.report(Severity::kNote, fmt::format("each look at a file asks the server: {}", none),
                   "mount data sets without noac, actimeo=0 and lookupcache=none; those that do not change with "
                   "ro,nocto,actimeo=600");
  } else if (!longer.empty()) {
    finding.report(Severity::kNote, fmt::format("files of other hosts may stay unseen for long: {}", longer),
                   "for checkpoints that another host goes on from: mount without actimeo and acdirmax");
  }
  return finding;
}

Finding check_places(const MountFacts& facts) {
  Finding finding{.id = "files.places",
                  .what = "VIRTUAL_ENV, CONDA_PREFIX and TMPDIR name no folder of another machine",
                  .why =
                      "each rank opens thousands of small files of its environment when it starts: with many ranks "
                      "the server is what they wait for"};
  std::string environments;
  std::string temporary;
  bool windows = true;  // all of them
  Json list = Json::array();
  for (const RemotePlace& place : facts.places) {
    list.push_back({{"variable", place.variable}, {"path", place.path}, {"mount", place.point}});
    std::string& all = place.variable == "TMPDIR" ? temporary : environments;
    all += fmt::format("{}{}={} on {}", all.empty() ? "" : ", ", place.variable, place.path, place.point);
    windows = windows && place.windows;
  }
  finding.details = {{"places", std::move(list)}};
  const std::string_view owner = windows ? "a disk of Windows" : "a file system of another machine";
  if (!temporary.empty()) {
    finding.report(Severity::kWarning, fmt::format("temporary files go to {}: {}", owner, temporary),
                   "export TMPDIR=/tmp, or a folder on a disk of this host");
    if (!environments.empty()) finding.what += "; " + environments;
  } else if (!environments.empty() && windows) {
    finding.report(Severity::kNote, fmt::format("the environment is on {}: {}", owner, environments),
                   "make it again in Linux's own file system, such as below /home");
  } else if (!environments.empty()) {
    finding.report(Severity::kNote, fmt::format("the environment is on {}: {}", owner, environments),
                   "before jobs of many ranks: pack it (conda-pack, venv-pack) and unpack it on a disk of each host, "
                   "or start a container image; all hosts need it at the same path");
  }
  return finding;
}

Finding check_windows(const MountFacts& facts) {
  const std::string disks =
      those_with(facts.handed_in, [](const Mount& mount) { return mount.is_windows() ? mount.source : ""; });
  return {.id = "files.windows",
          .severity = Severity::kNote,
          .what = fmt::format("disks of Windows are mounted: {}", disks),
          .why = "each access to such a file goes through Windows: data sets of small files are read many times slower",
          .fix = "keep data sets and environments in Linux's own file system, such as below /home",
          .details = {{"disks", disks}}};
}

}  // namespace

Findings check_mounts(const MountFacts& facts, std::optional<std::int64_t> mbit) {
  Findings findings = {check_list(facts)};
  if (!facts.remote.empty())
    append(findings, {check_locks(facts), check_errors(facts), check_transfer(facts, mbit), check_attributes(facts)});
  if (!facts.remote.empty() || !facts.handed_in.empty()) findings.push_back(check_places(facts));
  if (std::ranges::any_of(facts.handed_in, &Mount::is_windows)) findings.push_back(check_windows(facts));
  return findings;
}

}  // namespace xoe::doctor
