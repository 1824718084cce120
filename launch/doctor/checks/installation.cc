#include "launch/doctor/checks/installation.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "core/backend/choose_backend.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "launch/remote/run_in_child.h"

namespace xoe::doctor {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kSeen = 1;
constexpr const char* kPlugins[] = {"gloo", "mpi-openmpi", "mpi-mpich", "nccl"};

class Page {
 public:
  explicit Page(int fd) : word_(::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) {}
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  ~Page() {
    if (valid()) ::munmap(word_, kPage);
  }
  bool valid() const { return word_ != MAP_FAILED; }
  std::atomic<std::uint32_t>& word() const { return *static_cast<std::atomic<std::uint32_t>*>(word_); }

 private:
  void* word_;
};

// Runs in the other process, and does what a rank does with its peer's memory.
std::string play_peer(pid_t owner, int fd) {
  const Fd watch(static_cast<int>(::syscall(SYS_pidfd_open, owner, 0)));
  if (!watch.valid()) return fmt::format("cannot watch a process (pidfd_open): {}", errno_text(errno));
  const auto path = fmt::format("/proc/{}/fd/{}", owner, fd);
  const Fd memory(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!memory.valid()) return fmt::format("cannot open a peer's memory ({}): {}", path, errno_text(errno));
  const Page page(memory.get());
  if (!page.valid()) return fmt::format("cannot map a peer's memory: {}", errno_text(errno));
  page.word().store(kSeen);
  if (::syscall(SYS_futex, &page.word(), FUTEX_WAKE, 1, nullptr, nullptr, 0) < 0)
    return fmt::format("cannot wake a peer (futex): {}", errno_text(errno));
  return {};
}

// Runs in a process of its own.
std::string load_plugin(const std::string& path) {
  // Without RTLD_DEEPBIND, which the backends use to keep their symbols from a framework's: here is none.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fmt::format("-{}", ::dlerror());
  const auto build = reinterpret_cast<const char* (*)()>(::dlsym(library, "xoe_net_build"));
  if (build == nullptr) return "-it is no backend of Xoe (no symbol xoe_net_build)";
  return fmt::format("+{}", build());
}

PluginFacts find_plugin(const std::string& name, const std::string& version, const std::vector<std::string>& folders,
                        std::chrono::milliseconds timeout) {
  PluginFacts plugin{.name = name};
  std::error_code ignored;
  for (const std::string& folder : folders) {
    const fs::path path = fs::path(folder) / fmt::format("libxoe-{}.so", name);
    if (!fs::exists(path, ignored)) continue;
    plugin.path = path.string();
    const auto answer = remote::run_in_child([&plugin] { return load_plugin(plugin.path); }, timeout);
    if (!answer)
      plugin.error = answer.error().message();
    else if (answer->starts_with('+'))
      plugin.build = answer->substr(1);
    else
      plugin.error = answer->empty() ? "it ended the process that loaded it" : answer->substr(1);
    // A build's name begins with its version.
    if (plugin.works() && plugin.build.substr(0, plugin.build.find(' ')) != version)
      plugin.error = fmt::format("it belongs to another Xoe ({}; this is {})", plugin.build, version);
    break;
  }
  return plugin;
}

Finding check_sharing(const InstallationFacts& facts) {
  Finding finding{.id = "xoe.shm",
                  .what = "processes can share memory, wake and watch each other",
                  .why = "ranks of one host reduce in each other's memory (backend shm)"};
  finding.details = {{"works", facts.tried && facts.shared_error.empty()}, {"error", facts.shared_error}};
  if (!facts.tried) {
    finding.report(Severity::kSkipped, "not tried: this is a recorded tree");
  } else if (!facts.shared_error.empty()) {
    finding.report(Severity::kProblem, facts.shared_error,
                   "in a container: a newer runtime or --security-opt seccomp=unconfined; is /proc mounted?");
    finding.manifest = manifest_lines("", kRuntimesSeccomp);
  }
  return finding;
}

// The purpose of a backend, and how it is installed.
struct Use {
  std::string why;
  std::string install;
  std::string repair;
};

Use use_of(std::string_view plugin) {
  if (plugin.starts_with("mpi"))
    return {.why = "takes InfiniBand and what else MPI drives, where mpirun or srun started the job",
            .install = "only where it is wanted: build Xoe with libopenmpi-dev or libmpich-dev installed",
            .repair = "install the MPI that it was built with (Debian: openmpi-bin or mpich), or build Xoe again"};
  if (plugin == "nccl")
    return {.why = "sums in GPU memory, where it is chosen (--backend nccl)",
            .install = "build Xoe again: it needs nothing else",
            .repair = "install the libraries that it names, or build Xoe again"};
  return {.why = "joins hosts over TCP",
          .install = "to join hosts over TCP: build Xoe with libgloo-dev installed",
          .repair = "install the libraries that it names, or build Xoe again"};
}

Finding check_plugin(const PluginFacts& plugin, const InstallationFacts& facts) {
  const Use use = use_of(plugin.name);
  Finding finding{.id = "xoe." + plugin.name, .what = fmt::format("backend {} loads", plugin.name), .why = use.why};
  finding.details = {
      {"path", plugin.path}, {"loads", plugin.works()}, {"error", plugin.error}, {"build", plugin.build}};
  if (!facts.tried) {
    finding.report(Severity::kSkipped, fmt::format("backend {} not tried: this is a recorded tree", plugin.name));
  } else if (plugin.path.empty()) {
    finding.report(Severity::kNote, fmt::format("backend {} is not installed", plugin.name), use.install);
  } else if (plugin.name.starts_with("mpi") &&
             plugin.error.find("cannot open shared object file") != std::string::npos) {
    // Wheels come with the plug-in, whether or not the cluster has this MPI.
    finding.report(Severity::kNote, fmt::format("backend {} finds no MPI here: {}", plugin.name, plugin.error),
                   "only where it is wanted: install this MPI, or put its libraries into LD_LIBRARY_PATH");
  } else if (!plugin.error.empty()) {
    finding.report(Severity::kWarning, fmt::format("backend {} does not load: {}", plugin.name, plugin.error),
                   use.repair);
  }
  return finding;
}

Finding check_backend(const InstallationFacts& facts) {
  const auto loading = loading_engines(facts);
  const std::string between = say_engines(loading);
  Finding finding{.id = "xoe.backend",
                  .what = "no backend chosen: this is a recorded tree",
                  .why = "one host's ranks share memory; between hosts each byte crosses the network once per host"};
  finding.details = {{"one_host", facts.shared_error.empty() ? "shm" : ""},
                     {"between_hosts", engine_between_hosts(loading, false)},
                     {"between_hosts_by_mpi", engine_between_hosts(loading, true)}};
  if (!facts.tried) {
    finding.severity = Severity::kSkipped;
    return finding;
  }
  finding.what = fmt::format("on one host: shm; on several: {}", between.empty() ? "none" : between);
  finding.fix = "--backend of xoe run or XOE_BACKEND chooses another";
  if (between.empty()) {
    finding.advise(Severity::kNote, "no engine between hosts loads here: see the findings above");
  } else if (facts.rdma && engine_between_hosts(loading, true) == "mpi") {
    finding.advise(
        Severity::kNote,
        "gloo is TCP: to use the InfiniBand or RoCE port that is active here, start jobs with mpirun or srun");
  }
  return finding;
}

}  // namespace

std::string try_sharing(std::chrono::milliseconds timeout) {
  const Fd memory(::memfd_create("xoe-doctor", MFD_CLOEXEC));
  if (!memory.valid()) return fmt::format("cannot create shared memory (memfd_create): {}", errno_text(errno));
  if (::ftruncate(memory.get(), kPage) != 0) return fmt::format("cannot size shared memory: {}", errno_text(errno));
  const Page page(memory.get());
  if (!page.valid()) return fmt::format("cannot map shared memory: {}", errno_text(errno));
  page.word().store(0);
  const auto answer =
      remote::run_in_child([&memory, owner = ::getpid()] { return play_peer(owner, memory.get()); }, timeout);
  if (!answer) return "another process: " + answer.error().message();
  if (!answer->empty()) return *answer;
  return page.word().load() == kSeen ? "" : "what another process wrote did not arrive";
}

void find_plugins(InstallationFacts& facts, const std::string& folder, std::chrono::milliseconds timeout) {
  const fs::path own = fs::path(facts.program).parent_path();
  facts.searched = {folder};
  if (folder.empty()) facts.searched = {own.string(), (own.parent_path() / "lib").string()};
  for (const char* const name : kPlugins)
    facts.plugins.push_back(find_plugin(name, facts.version, facts.searched, timeout));
}

std::vector<std::string> loading_engines(const InstallationFacts& facts) {
  std::vector<std::string> engines;
  for (const char* const name : {"gloo", "mpi"})
    if (std::ranges::any_of(facts.plugins, [&](const auto& p) { return p.name.starts_with(name) && p.works(); }))
      engines.emplace_back(name);
  return engines;
}

std::string engine_between_hosts(const std::vector<std::string>& loading, bool by_mpi) {
  const auto choice = choose_backend({}, /*several_hosts=*/true, by_mpi);  // as the ranks do
  if (!choice) return {};
  const auto loads = [&](const std::string& net) { return std::ranges::find(loading, net) != loading.end(); };
  const auto found = std::ranges::find_if(choice->nets, loads);
  return found == choice->nets.end() ? "" : *found;
}

std::string say_engines(const std::vector<std::string>& loading) {
  const std::string alone = engine_between_hosts(loading, false);
  const std::string by_mpi = engine_between_hosts(loading, true);
  if (by_mpi.empty()) return {};
  if (alone.empty()) return fmt::format("hierarchical over {}, under mpirun or srun only", by_mpi);
  if (alone == by_mpi) return fmt::format("hierarchical over {}", alone);
  return fmt::format("hierarchical over {}, over {} under mpirun or srun", alone, by_mpi);
}

Findings check_installation(const InstallationFacts& facts) {
  Findings findings = {{.id = "xoe.version",
                        .what = fmt::format("Xoe {} ({})", facts.version, facts.program),
                        .why = "all hosts of a job need the same version",
                        .details = {{"version", facts.version}, {"program", facts.program}}},
                       check_sharing(facts)};
  for (const PluginFacts& plugin : facts.plugins) findings.push_back(check_plugin(plugin, facts));
  findings.push_back(check_backend(facts));
  return findings;
}

}  // namespace xoe::doctor
