// File systems that other machines serve, and what their mount options mean for data sets, checkpoints and packages.
// The file systems themselves are not touched: one whose server is gone would hold the program for ever.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/doctor/facts/tree.h"
#include "launch/doctor/report/finding.h"

namespace xoe::doctor {

struct Mount {
  std::string point = {};   // "/home"
  std::string type = {};    // "nfs4"
  std::string source = {};  // "filer:/ifs/home"
  std::vector<std::string> options = {};

  bool has(std::string_view option) const;
  std::string value(std::string_view key) const;  // of "key=value"; empty: the option is not set
  bool is_windows() const;                        // a disk of Windows, as WSL mounts it
  bool is_mountpoint_s3() const;                  // a bucket, which Mountpoint for Amazon S3 shows
};

// A folder that a variable of this process names, on a file system of another machine or a disk of Windows.
struct RemotePlace {
  std::string variable = {};  // "CONDA_PREFIX"
  std::string path = {};
  std::string point = {};  // of the mount
  bool windows = false;
};

struct MountFacts {
  bool known = false;  // the kernel tells its mounts
  std::vector<Mount> remote = {};
  std::vector<Mount> handed_in = {};  // by the host of this virtual machine: 9p and virtiofs, WSL's disks of Windows
  std::vector<RemotePlace> places = {};
};

MountFacts read_mounts(const Tree& tree);
// `mbit`: per second, of the interface that leads to other hosts.
Findings check_mounts(const MountFacts& facts, std::optional<std::int64_t> mbit);

}  // namespace xoe::doctor
