// Which ranks the launcher wants in the next version of the world: memory that the launcher writes and all ranks of
// this host read. So a rank learns of a change at a step of its own choice, at the cost of a memory access.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/env.h"
#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// The path of the page, for the ranks of a job whose number of ranks may change.
inline constexpr const char* kWorldVariable = "XOE_WORLD";
inline constexpr int kMostSlots = 512;

namespace detail {
struct WorldPageLayout;
}

// The launcher's side.
class WorldPage {
 public:
  static Result<WorldPage> create();
  WorldPage(WorldPage&& other) noexcept;
  WorldPage& operator=(WorldPage&&) = delete;
  ~WorldPage();

  const std::string& path() const noexcept { return path_; }
  int fd() const noexcept { return fd_.get(); }
  // `slots`: of the members, each below kMostSlots. To be called when the store has the version.
  void publish(int version, std::span<const int> slots);

 private:
  WorldPage() = default;

  Fd fd_;
  std::string path_;
  detail::WorldPageLayout* layout_ = nullptr;
};

// A rank's side. Copies share the memory; any thread.
class WorldView {
 public:
  enum class Change : std::uint8_t {
    kStay,    // nothing has changed since the version that this rank joined
    kReForm,  // another version has begun: leave this world at a step that all ranks agree on, and join it
    kLeave,   // ... and this rank is not in it
  };

  // Reads XOE_WORLD and XOE_RANK. Without them, the change is always kStay. `invalid_argument`: there is no such page.
  static Result<WorldView> of_process(const Env& env);

  bool may_change() const noexcept { return layout_ != nullptr; }
  // True if the page names members of the world, and this rank is not one of them; false before any are named.
  bool is_newcomer() const noexcept;
  // `joined`: the version that this rank is in.
  Change change(int joined) const noexcept;

 private:
  bool is_member() const noexcept;
  std::shared_ptr<const detail::WorldPageLayout> layout_;
  int slot_ = 0;
};

}  // namespace xoe::bootstrap
