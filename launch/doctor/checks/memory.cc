#include "launch/doctor/checks/host.h"

#include <sys/statvfs.h>

#include <fmt/format.h>

#include "core/base/machine.h"
#include "core/base/text.h"

namespace xoe::doctor {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kDockerShm = 64 * kMiB;
constexpr std::uint64_t kLittleShm = kGiB;
constexpr std::uint64_t kLittleMemlock = kGiB;
constexpr std::uint64_t kLittleMemory = 2 * kGiB;
constexpr std::uint64_t kFewFiles = 4096;

std::string amount(const std::optional<std::uint64_t>& bytes) { return bytes ? human_bytes(*bytes) : "unlimited"; }

// The line "Max locked memory   65536   65536   bytes" of /proc/self/limits: soft and hard; nullopt: no limit.
std::pair<std::optional<std::uint64_t>, std::optional<std::uint64_t>> limit_of(std::string_view limits,
                                                                               std::string_view name) {
  const auto words = words_of(field(limits, name));
  const auto value = [&words](std::size_t i) -> std::optional<std::uint64_t> {
    const auto number = i < words.size() ? parse_integer(words[i]) : std::nullopt;
    return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
  };
  return {value(0), value(1)};
}

// The word in brackets of "always [madvise] never".
std::string chosen(std::string_view text) {
  const auto from = text.find('[');
  const auto end = text.find(']', from == std::string_view::npos ? 0 : from);
  return from == std::string_view::npos || end == std::string_view::npos
             ? ""
             : std::string(text.substr(from + 1, end - from - 1));
}

// Read from its mount options; a tmpfs without a size takes half of the memory.
std::optional<std::uint64_t> recorded_shm(const Tree& tree, std::uint64_t total) {
  std::optional<std::uint64_t> size;
  for (const std::string& line : lines_of(tree.text("/proc/self/mounts").value_or(""))) {
    const auto words = words_of(line);
    if (words.size() < 4 || words[1] != "/dev/shm") continue;
    size = total / 2;
    for (const std::string& option : split_text(words[3], ','))
      if (option.starts_with("size=")) size = parse_bytes(option.substr(5));
  }
  return size;
}

void read_shm(const Tree& tree, MemoryFacts& facts) {
  facts.shm = recorded_shm(tree, facts.total);
  struct statvfs space = {};
  if (!tree.live() || !facts.shm || ::statvfs("/dev/shm", &space) != 0) return;
  facts.shm = std::uint64_t{space.f_blocks} * space.f_frsize;
  facts.shm_free = std::uint64_t{space.f_bavail} * space.f_frsize;
}

Finding check_size(const MemoryFacts& facts) {
  Finding finding{
      .id = "memory.size",
      .what = fmt::format("{}, of which {} can be had", human_bytes(facts.total), human_bytes(facts.available)),
      .why = "every rank holds a model, its gradients and batches that were read ahead"};
  finding.details = {{"total", facts.total}, {"available", facts.available}};
  if (facts.total == 0) {
    finding.report(Severity::kSkipped, "the kernel does not say how much memory there is");
  } else if (facts.available < kLittleMemory && facts.available < facts.total / 4) {
    finding.advise(Severity::kWarning, "end programs that hold memory (ps aux --sort=-rss | head)");
  }
  return finding;
}

Finding check_group_memory(const MemoryFacts& facts, const CgroupLimits& limits) {
  Finding finding{.id = "memory.cgroup",
                  .what = "no control group limits memory",
                  .why =
                      "a group that reaches its limit has one of its processes killed, and with it the job; shared "
                      "memory counts too"};
  finding.details = {{"limit", json_or_null(limits.memory)}, {"used", json_or_null(limits.memory_used)}};
  if (!limits.memory || (facts.total > 0 && *limits.memory >= facts.total)) return finding;
  finding.report(Severity::kNote, fmt::format("a control group limits memory to {}", human_bytes(*limits.memory)));
  const std::uint64_t used = limits.memory_used.value_or(0);
  if (used > 0) finding.what += fmt::format(", {} of it used", human_bytes(used));
  if (*limits.memory - std::min(used, *limits.memory) < kLittleMemory) {
    finding.advise(Severity::kWarning,
                   "if the model needs more: docker run --memory, Kubernetes resources.limits.memory, sbatch --mem");
    finding.manifest = manifest_lines(memory_limit_line(2 * *limits.memory), "");
  }
  return finding;
}

Finding check_shm(const MemoryFacts& facts) {
  Finding finding{.id = "memory.shm",
                  .what = fmt::format("/dev/shm holds {}", amount(facts.shm)),
                  .why =
                      "Xoe itself does not use it, but NCCL, Open MPI, UCX and the data loaders of PyTorch do, and "
                      "fail or crash (SIGBUS) when it is full"};
  finding.details = {{"size", json_or_null(facts.shm)}, {"docker_default", facts.shm == kDockerShm}};
  const std::string remedy =
      "docker run --shm-size=8g (or --ipc=host); Kubernetes: an emptyDir of medium Memory at "
      "/dev/shm; elsewhere: mount -o remount,size=8g /dev/shm";
  const std::string lines = manifest_lines("volumeMounts: [{name: shm, mountPath: /dev/shm}]",
                                           "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]");
  if (!facts.shm) {
    finding.report(Severity::kWarning, "nothing is mounted at /dev/shm",
                   "mount -t tmpfs tmpfs /dev/shm, or in a container: " + remedy);
    finding.manifest = lines;
  } else if (*facts.shm < kLittleShm) {
    finding.severity = Severity::kWarning;
    if (*facts.shm == kDockerShm) finding.what += ", which is what a container gets by default";
    finding.fix = remedy;
    finding.manifest = lines;
  } else if (facts.shm_free > 0 && facts.shm_free < kLittleShm / 4) {
    finding.severity = Severity::kWarning;
    finding.what += fmt::format(", but only {} are free", human_bytes(facts.shm_free));
    finding.fix = "remove what ended programs left there (ls -l /dev/shm)";
  }
  return finding;
}

Finding check_memlock(const MemoryFacts& facts) {
  Finding finding{.id = "memory.memlock",
                  .what = fmt::format("memory that may be locked: {}", amount(facts.memlock)),
                  .why =
                      "InfiniBand and RoCE cards register buffers, which locks them in memory; Xoe on one host and "
                      "over TCP locks none"};
  finding.details = {{"limit", json_or_null(facts.memlock)}};
  if (!facts.limits_known) {
    finding.report(Severity::kSkipped, "/proc/self/limits cannot be read");
  } else if (facts.memlock && *facts.memlock < kLittleMemlock) {
    finding.severity = facts.rdma ? Severity::kWarning : Severity::kNote;
    if (facts.rdma)
      finding.fix =
          "lines '* soft memlock unlimited' and '* hard memlock unlimited' in /etc/security/limits.conf (for "
          "ssh log in again; for Slurm LimitMEMLOCK=infinity in slurmd.service); docker run --ulimit memlock=-1";
  }
  return finding;
}

Finding check_files(const MemoryFacts& facts) {
  Finding finding{.id = "memory.nofile",
                  .what = fmt::format("{} open files", facts.nofile ? fmt::format("{}", *facts.nofile) : "unlimited"),
                  .why =
                      "ranks hold a connection for each peer, loaders a file for each thread; the launcher holds "
                      "several for each rank"};
  finding.details = {{"soft", json_or_null(facts.nofile)}, {"hard", json_or_null(facts.nofile_hard)}};
  if (!facts.limits_known) {
    finding.report(Severity::kSkipped, "/proc/self/limits cannot be read");
  } else if (facts.nofile && *facts.nofile < kFewFiles) {
    finding.advise(*facts.nofile < 256 ? Severity::kProblem : Severity::kNote,
                   facts.nofile_hard && *facts.nofile_hard < kFewFiles
                       ? "raise the hard limit: '* hard nofile 65536' in /etc/security/limits.conf"
                       : "ulimit -n 65536 before large jobs");
  }
  return finding;
}

Finding check_huge_pages(const MemoryFacts& facts) {
  Finding finding{.id = "memory.huge_pages",
                  .what = fmt::format("transparent huge pages: {}; for shared memory: {}; {} reserved",
                                      facts.transparent_pages, facts.shared_pages, facts.reserved_pages),
                  .why = "gradients live in shared memory; with pages of 2 MiB the processor finds them faster"};
  finding.details = {
      {"transparent", facts.transparent_pages}, {"shared", facts.shared_pages}, {"reserved", facts.reserved_pages}};
  if (facts.transparent_pages.empty()) {
    finding.report(Severity::kSkipped, "the kernel says nothing of huge pages");
  } else if (facts.shared_pages == "never" || facts.shared_pages == "deny") {
    finding.advise(Severity::kNote, "as root: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled");
  }
  return finding;
}

}  // namespace

MemoryFacts read_memory(const Tree& tree) {
  MemoryFacts facts;
  facts.total = read_kilobytes(tree.path("/proc/meminfo"), "MemTotal:");
  facts.available = read_kilobytes(tree.path("/proc/meminfo"), "MemAvailable:");
  read_shm(tree, facts);
  const auto limits = tree.text("/proc/self/limits");
  facts.limits_known = limits.has_value();
  facts.memlock = limit_of(limits.value_or(""), "Max locked memory").first;
  std::tie(facts.nofile, facts.nofile_hard) = limit_of(limits.value_or(""), "Max open files");
  facts.transparent_pages = chosen(tree.line("/sys/kernel/mm/transparent_hugepage/enabled"));
  facts.shared_pages = chosen(tree.line("/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  facts.reserved_pages = tree.number("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").value_or(0);
  facts.rdma = !tree.names("/sys/class/infiniband").empty();
  return facts;
}

Findings check_memory(const MemoryFacts& facts, const CgroupLimits& limits) {
  return {check_size(facts),  check_group_memory(facts, limits),
          check_shm(facts),   check_memlock(facts),
          check_files(facts), check_huge_pages(facts)};
}

}  // namespace xoe::doctor
