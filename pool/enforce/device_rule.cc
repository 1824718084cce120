#include "pool/enforce/device_rule.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/base/error.h"

namespace xoe::pool {
namespace {

constexpr int kRemovalTries = 100;
constexpr auto kRemovalPause = std::chrono::milliseconds(20);

int bpf(bpf_cmd command, bpf_attr& attributes) {
  return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

bpf_insn instruction(unsigned code, unsigned to, unsigned from, std::size_t offset, unsigned value) {
  bpf_insn one = {};
  one.code = static_cast<std::uint8_t>(code);
  one.dst_reg = to & 0xf;
  one.src_reg = from & 0xf;
  one.off = static_cast<std::int16_t>(offset);
  one.imm = static_cast<int>(value);
  return one;
}
bpf_insn load(unsigned to, std::size_t offset) {
  return instruction(BPF_LDX | BPF_W | BPF_MEM, to, BPF_REG_1, offset, 0);
}
bpf_insn set(unsigned to, unsigned value) { return instruction(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value); }
bpf_insn mask(unsigned to, unsigned value) { return instruction(BPF_ALU64 | BPF_AND | BPF_K, to, 0, 0, value); }
bpf_insn end() { return instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }
// Skips `count` instructions if the register compares so with the value.
bpf_insn skip_if(unsigned how, unsigned reg, unsigned value, std::size_t count) {
  return instruction(BPF_JMP | how | BPF_K, reg, 0, count, value);
}

// Allows all devices but the character devices of `major` whose minor number is below `first_shared` and none of these.
std::vector<bpf_insn> program_of(const DevicePlaces& places, const std::vector<unsigned>& minors) {
  using Context = bpf_cgroup_dev_ctx;
  const std::size_t checks = minors.size();
  std::vector<bpf_insn> code = {load(BPF_REG_2, offsetof(Context, access_type)),
                                load(BPF_REG_3, offsetof(Context, major)),
                                load(BPF_REG_4, offsetof(Context, minor)),
                                mask(BPF_REG_2, 0xffff),
                                skip_if(BPF_JNE, BPF_REG_2, BPF_DEVCG_DEV_CHAR, checks + 4),
                                skip_if(BPF_JNE, BPF_REG_3, places.major, checks + 3),
                                skip_if(BPF_JGE, BPF_REG_4, places.first_shared, checks + 2)};
  for (std::size_t i = 0; i < checks; ++i) code.push_back(skip_if(BPF_JEQ, BPF_REG_4, minors[i], checks - i + 1));
  code.insert(code.end(), {set(BPF_REG_0, 0), end(), set(BPF_REG_0, 1), end()});
  return code;
}

Result<Fd> load_program(const std::vector<bpf_insn>& code) {
  bpf_attr attributes = {};
  attributes.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  attributes.insns = reinterpret_cast<std::uintptr_t>(code.data());
  attributes.insn_cnt = static_cast<std::uint32_t>(code.size());
  attributes.license = reinterpret_cast<std::uintptr_t>("Apache-2.0");
  Fd program(bpf(BPF_PROG_LOAD, attributes));
  if (!program.valid())
    return failure(Code::kUnavailable, "the kernel takes no device rule: {}; this needs root", errno_text(errno));
  return program;
}

Result<std::vector<unsigned>> minors_of(const DevicePlaces& places, const std::vector<std::string>& uuids) {
  const auto known = device_minors(places).by_uuid;
  std::vector<unsigned> minors;
  for (const std::string& uuid : uuids) {
    if (uuid.starts_with("MIG-"))
      return failure(Code::kUnsupported,
                     "{} is a MIG instance: those of a GPU share its device file, so no device rule "
                     "tells them apart",
                     uuid);
    const auto found = known.find(uuid);
    if (found == known.end())
      return failure(Code::kUnavailable, "{} does not say which device file {} has", places.gpus, uuid);
    minors.push_back(found->second);
  }
  return minors;
}

// The folder of this process's own cgroup.
Result<std::string> own_folder(const DevicePlaces& places) {
  std::string root;
  std::ifstream mounts(places.mounts);
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device, folder, type;
    if (words >> device >> folder >> type && type == "cgroup2") root = folder;
  }
  std::string own;
  std::ifstream groups(places.own_group);
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::")) own = line.substr(3);
  if (root.empty() || own.empty()) return failure(Code::kUnsupported, "this host has no cgroup v2");
  return root + (own == "/" ? "" : own);
}

Status write_to(const std::string& path, std::string_view text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.valid() && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return {};
  return failure(Code::kUnavailable, "cannot write {}: {}", path, errno_text(errno));
}

void remove_group(const std::string& folder) {
  static_cast<void>(write_to(folder + "/cgroup.kill", "1"));
  for (int i = 0; i < kRemovalTries && ::rmdir(folder.c_str()) != 0 && errno == EBUSY; ++i)
    std::this_thread::sleep_for(kRemovalPause);
}

}  // namespace

Result<DeviceRule> DeviceRule::create(const std::string& name, const std::vector<std::string>& uuids,
                                      DevicePlaces places) {
  DeviceRule rule(std::move(places));
  XOE_ASSIGN(const std::string own, own_folder(rule.places_));
  const std::string folder = own + "/" + name;
  if (::mkdir(folder.c_str(), 0755) != 0)
    return failure(Code::kUnavailable, "cannot make the cgroup {}: {}; this needs root", folder, errno_text(errno));
  rule.folder_ = folder;
  rule.group_ = Fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  XOE_TRY(rule.allow(uuids));
  return rule;
}

DeviceRule::DeviceRule(DeviceRule&& other) noexcept
    : places_(std::move(other.places_)),
      folder_(std::exchange(other.folder_, {})),
      group_(std::move(other.group_)),
      program_(std::move(other.program_)) {}

DeviceRule::~DeviceRule() {
  if (!folder_.empty()) remove_group(folder_);
}

Status DeviceRule::allow(const std::vector<std::string>& uuids) {
  XOE_ASSIGN(const auto minors, minors_of(places_, uuids));
  XOE_ASSIGN(Fd program, load_program(program_of(places_, minors)));
  bpf_attr attach = {};
  attach.target_fd = static_cast<std::uint32_t>(group_.get());
  attach.attach_bpf_fd = static_cast<std::uint32_t>(program.get());
  attach.attach_type = BPF_CGROUP_DEVICE;
  attach.attach_flags = BPF_F_ALLOW_MULTI;  // rules of outer cgroups go on to hold
  if (bpf(BPF_PROG_ATTACH, attach) != 0)
    return failure(Code::kUnavailable, "cannot put a device rule on {}: {}", folder_, errno_text(errno));
  // Both hold for a moment, so that none is missing.
  if (program_.valid()) {
    bpf_attr detach = {};
    detach.target_fd = attach.target_fd;
    detach.attach_bpf_fd = static_cast<std::uint32_t>(program_.get());
    detach.attach_type = BPF_CGROUP_DEVICE;
    bpf(BPF_PROG_DETACH, detach);
  }
  program_ = std::move(program);
  return {};
}

Status DeviceRule::enter() const { return write_to(folder_ + "/cgroup.procs", "0"); }

void remove_device_rule(const std::string& name, const DevicePlaces& places) {
  const auto own = own_folder(places);
  std::error_code ignored;
  if (own && std::filesystem::exists(*own + "/" + name, ignored)) remove_group(*own + "/" + name);
}

}  // namespace xoe::pool
