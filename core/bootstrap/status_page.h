// What the ranks of a host tell their launcher while they run, in memory that both map: a slot for each rank. A rank
// writes when something happens, the launcher reads when it likes; neither wakes the other.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/env.h"
#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// Set by the launcher: the file of the page. The slot is that of XOE_LOCAL_RANK.
inline constexpr const char* kStatusVariable = "XOE_STATUS";

enum class WaitKind : std::uint8_t { kNone, kPeers, kData };

// A rank at one moment.
struct RankFacts {
  bool joined = false;           // it has written something
  std::uint64_t steps = 0;       // training steps that have ended
  std::uint64_t operations = 0;  // collectives that have completed
  // Waited so far, the present wait included.
  std::chrono::nanoseconds peers{0};
  std::chrono::nanoseconds data{0};
  WaitKind wait = WaitKind::kNone;     // the present one
  std::chrono::nanoseconds waited{0};  // since it began
  // Of a wait for peers that has lasted for a second or so; else empty.
  std::string tensor = {};
  std::vector<int> missing = {};  // at most kMostMissing ranks of the job; empty: ranks of other hosts

  bool operator==(const RankFacts&) const = default;
};

inline constexpr std::size_t kMostMissing = 8;
inline constexpr std::size_t kMostTensorName = 96;  // bytes; the rest is cut

// Facts of the ranks of one host, for the launcher of several.
std::string encode_facts(std::span<const RankFacts> facts);
// `invalid_argument` for anything that encode_facts() would not write.
Result<std::vector<RankFacts>> decode_facts(std::string_view text);

namespace detail {
struct StatusSlot;
}

// The launcher's side.
class StatusPage {
 public:
  using Clock = std::chrono::steady_clock;
  static Result<StatusPage> create(std::size_t ranks);
  StatusPage(StatusPage&& other) noexcept;
  ~StatusPage();

  // For kStatusVariable: good while this process lives and has not dropped the page.
  const std::string& path() const noexcept { return path_; }
  int fd() const noexcept { return fd_.get(); }
  std::vector<RankFacts> facts(Clock::time_point now) const;

 private:
  StatusPage() = default;

  Fd fd_;
  std::string path_;
  detail::StatusSlot* slots_ = nullptr;
  std::size_t ranks_ = 0;
};

// The rank's side. Any thread; all calls are lock-free, and do nothing where no launcher wants to know.
class StatusWriter {
 public:
  StatusWriter() = default;  // tells no launcher
  // Of the launcher that `env` describes; tells none where its page cannot be mapped, in a container for example.
  static StatusWriter of_process(const Env& env);

  void step() noexcept;
  // REQUIRES: one thread at a time.
  void operation() noexcept {
    if (slot_ != nullptr) count_operation();
  }
  // A wait begins, perhaps inside of another one; end() takes what begin() gave. Time counts for the innermost.
  WaitKind begin(WaitKind kind) noexcept;
  void end(WaitKind outer) noexcept;
  // How many ranks the job has; 0: no launcher wants to know.
  int job_size() const noexcept { return job_size_; }
  // The present wait is for `tensor`, which these ranks of the job have not submitted. REQUIRES: one thread at a time.
  void explain(std::string_view tensor, std::span<const int> missing) noexcept;

 private:
  void count_operation() noexcept;

  std::shared_ptr<detail::StatusSlot> slot_;
  int job_size_ = 0;
};

// A wait from construction to destruction.
class StatusWait {
 public:
  StatusWait(StatusWriter& writer, WaitKind kind) noexcept : writer_(writer), outer_(writer.begin(kind)) {}
  ~StatusWait() { writer_.end(outer_); }
  StatusWait(const StatusWait&) = delete;
  StatusWait& operator=(const StatusWait&) = delete;

 private:
  StatusWriter& writer_;
  WaitKind outer_;
};

}  // namespace xoe::bootstrap
