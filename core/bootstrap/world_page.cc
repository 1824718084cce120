#include "core/bootstrap/world_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "core/base/error.h"

namespace xoe::bootstrap {
namespace detail {

// The members are written before the version, so a rank that sees a version sees its members or those of a later one.
struct WorldPageLayout {
  std::atomic<std::uint64_t> format;
  std::atomic<std::uint64_t> version;
  std::array<std::atomic<std::uint64_t>, kMostSlots / 64> members;
};

}  // namespace detail

namespace {

using detail::WorldPageLayout;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

constexpr std::uint64_t kPageFormat = 0x31646c726f77;  // "world1"

}  // namespace

Result<WorldPage> WorldPage::create() {
  WorldPage page;
  page.fd_ = Fd(::memfd_create("xoe-world", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  void* memory = MAP_FAILED;
  // Sealed, so that no rank can cut it off below the others.
  if (page.fd_.valid() && ::ftruncate(page.fd_.get(), sizeof(WorldPageLayout)) == 0 &&
      ::fcntl(page.fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    memory = ::mmap(nullptr, sizeof(WorldPageLayout), PROT_READ | PROT_WRITE, MAP_SHARED, page.fd_.get(), 0);
  if (memory == MAP_FAILED)
    return failure(Code::kResourceExhausted, "cannot make memory for the version of the world: {}", errno_text(errno));
  page.layout_ = static_cast<WorldPageLayout*>(memory);
  page.layout_->format.store(kPageFormat, std::memory_order_release);
  page.path_ = fmt::format("/proc/{}/fd/{}", ::getpid(), page.fd_.get());
  return page;
}

WorldPage::WorldPage(WorldPage&& other) noexcept
    : fd_(std::move(other.fd_)), path_(std::move(other.path_)), layout_(std::exchange(other.layout_, nullptr)) {}

WorldPage::~WorldPage() {
  if (layout_ != nullptr) ::munmap(layout_, sizeof(WorldPageLayout));
}

void WorldPage::publish(int version, std::span<const int> slots) {
  std::array<std::uint64_t, kMostSlots / 64> members = {};
  for (const int slot : slots) members[static_cast<std::size_t>(slot) / 64] |= std::uint64_t{1} << (slot % 64);
  for (std::size_t i = 0; i < members.size(); ++i) layout_->members[i].store(members[i], std::memory_order_relaxed);
  layout_->version.store(static_cast<std::uint64_t>(version), std::memory_order_release);
}

Result<WorldView> WorldView::of_process(const Env& env) {
  WorldView view;
  const auto path = env.text(kWorldVariable);
  const auto slot = env.integer("XOE_RANK", 0, kMostSlots - 1);
  if (!path || !slot || !*slot) return view;
  const auto unusable = [&](const std::string& why) {
    return failure(Code::kInvalidArgument,
                   "{} {}: {}; it is the launcher's, for the ranks that run beside it, not in a container or on "
                   "another host",
                   kWorldVariable, *path, why);
  };
  const Fd file(::open(path->c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts = {};
  if (!file.valid() || ::fstat(file.get(), &facts) != 0) return unusable(errno_text(errno));
  if (facts.st_size != sizeof(WorldPageLayout)) return unusable("not a page with a world's version");
  void* const memory = ::mmap(nullptr, sizeof(WorldPageLayout), PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return unusable(errno_text(errno));
  std::shared_ptr<const WorldPageLayout> layout(
      static_cast<const WorldPageLayout*>(memory),
      [](const WorldPageLayout* mapped) { ::munmap(const_cast<WorldPageLayout*>(mapped), sizeof *mapped); });
  if (layout->format.load(std::memory_order_acquire) != kPageFormat)
    return unusable("the page is of another version of Xoe");
  view.layout_ = std::move(layout);
  view.slot_ = static_cast<int>(**slot);
  return view;
}

bool WorldView::is_newcomer() const noexcept {
  if (layout_ == nullptr) return false;
  layout_->version.load(std::memory_order_acquire);
  const auto any = [](const auto& word) { return word.load(std::memory_order_relaxed) != 0; };
  return std::ranges::any_of(layout_->members, any) && !is_member();
}

bool WorldView::is_member() const noexcept {
  const auto word = layout_->members[static_cast<std::size_t>(slot_) / 64].load(std::memory_order_relaxed);
  return (word >> (slot_ % 64) & 1) != 0;
}

WorldView::Change WorldView::change(int joined) const noexcept {
  if (layout_ == nullptr || layout_->version.load(std::memory_order_acquire) <= static_cast<std::uint64_t>(joined))
    return Change::kStay;
  return is_member() ? Change::kReForm : Change::kLeave;
}

}  // namespace xoe::bootstrap
