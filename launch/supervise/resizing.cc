#include "launch/supervise/resizing.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/bootstrap/store.h"
#include "launch/supervise/supervisor.h"

namespace xoe::launch {
namespace {

constexpr std::size_t kLongestRequest = 65536;
constexpr std::size_t kMostAnswers = 65536;  // bytes that wait for their reader
constexpr double kLongestLeave = 1e6;        // seconds

}  // namespace

Resizing::Resizing(Fd control, std::span<const Place> places, const ResizeLimits& limits, ResizeActions actions)
    : control_(std::move(control)), limits_(limits), actions_(std::move(actions)) {
  for (const Place& place : places)
    slots_.push_back({.state = place.is == Place::Is::kMember ? State::kMember
                               : place.is == Place::Is::kFree ? State::kFree
                                                              : State::kAbsent,
                      .host = place.host,
                      .device = place.device});
}

std::vector<int> Resizing::members() const {
  std::vector<int> members;
  for (const Slot& slot : slots_)
    if (slot.state == State::kJoining || slot.state == State::kMember || slot.state == State::kAsked)
      members.push_back(number_of(slot));
  return members;
}

std::vector<bootstrap::WorldMember> Resizing::world() const {
  std::vector<bootstrap::WorldMember> world;
  for (const int slot : members())
    world.push_back({.slot = slot, .host = static_cast<int>(slots_[static_cast<std::size_t>(slot)].host)});
  return world;
}

void Resizing::begun(int version) {
  version_ = version;
  formed_ = false;
}

void Resizing::look(const bootstrap::StoreService& store, Clock::time_point now, bool may_start) {
  send_answers();
  read(now);
  if (!formed_ && store.has(fmt::format("{}/{}", bootstrap::kWorldFormedKey, version_))) {
    formed_ = has_formed_ = true;
    formed_at_ = now;
    actions_.formed();
    for (Slot& slot : slots_) {
      slot.fresh = false;
      if (slot.state != State::kJoining) continue;
      slot.state = State::kMember;
      answer("joined", slot.device);
    }
    if (version_ > 0) actions_.tell(fmt::format("the job goes on with {}", counted(std::ssize(members()), "rank")));
  }
  if (!stopped_ && may_start) fill();
  if (formed_ && !stopped_) change_world(store, now);
  run_timers(now);
}

int Resizing::staying() const { return static_cast<int>(std::ranges::count(slots_, State::kMember, &Slot::state)); }

// Slots whose process failed are not filled by themselves: the next one may fail like it.
void Resizing::fill() {
  auto ranks = std::ranges::count_if(slots_, [](const Slot& slot) {
    return slot.state == State::kStarting || slot.state == State::kJoining || slot.state == State::kMember;
  });
  for (Slot& slot : slots_) {
    if (ranks >= limits_.most) return;
    if (slot.state != State::kFree || slot.failed || slot.barred || slot.going) continue;
    slot.state = State::kStarting;
    ++ranks;
    actions_.start(number_of(slot), slot.device);
  }
}

bool Resizing::is_ready(const bootstrap::StoreService& store, const Slot& slot) const {
  return slot.state == State::kStarting &&
         store.has(fmt::format("{}/{}", bootstrap::kWorldCandidateKey, number_of(slot)));
}

// Those of a host become ready one after the other, and come together: each change costs the others a moment.
bool Resizing::may_join(const bootstrap::StoreService& store, Clock::time_point now) {
  const auto starting = std::ranges::count(slots_, State::kStarting, &Slot::state);
  const auto ready = std::ranges::count_if(slots_, [&](const Slot& slot) { return is_ready(store, slot); });
  if (ready == 0) {
    ready_since_.reset();
    return false;
  }
  if (!ready_since_) ready_since_ = now;
  const bool rested = !formed_at_ || now - *formed_at_ >= limits_.interval;
  return rested && (ready == starting || now - *ready_since_ >= limits_.interval);
}

// All that wait come and go with one version.
void Resizing::change_world(const bootstrap::StoreService& store, Clock::time_point now) {
  bool changes = false;
  const bool joins = may_join(store, now);
  for (Slot& slot : slots_) {
    const bool leaves = slot.state == State::kAsked;
    const bool comes = joins && is_ready(store, slot);
    if (leaves) slot.state = State::kLeaving;
    if (comes) slot.state = State::kJoining;
    changes = changes || leaves || comes;
  }
  if (changes) actions_.begin_world(/*all_live=*/true);
}

void Resizing::run_timers(Clock::time_point now) {
  for (Slot& slot : slots_) {
    if (slot.terminate_at && now >= *slot.terminate_at) {
      actions_.tell(fmt::format("{} did not leave in time, and is ended", slot.device.empty()
                                                                              ? fmt::format("rank {}", number_of(slot))
                                                                              : "the rank with " + slot.device));
      end(slot, now);
    }
    if (slot.kill_at && now >= *slot.kill_at) {
      slot.kill_at.reset();
      signal(slot, SIGKILL);
    }
  }
}

void Resizing::end(Slot& slot, Clock::time_point now) {
  slot.terminate_at.reset();
  slot.kill_at = now + limits_.grace;
  const State before = std::exchange(slot.state, State::kLeaving);
  // Those that lose it as a peer find a version without it.
  if (before == State::kAsked || before == State::kJoining) begin_world(/*all_live=*/before == State::kJoining);
  signal(slot, SIGTERM);
}

void Resizing::signal(Slot& slot, int signal) {
  slot.signalled = true;
  actions_.signal(number_of(slot), signal);
}

// The ranks of a job that ends form no world any more.
void Resizing::begin_world(bool all_live) {
  if (!stopped_) actions_.begin_world(all_live);
}

std::optional<Resizing::Clock::time_point> Resizing::next() const {
  std::optional<Clock::time_point> next;
  for (const Slot& slot : slots_)
    for (const auto& time : {slot.terminate_at, slot.kill_at})
      if (time) next = std::min(next.value_or(*time), *time);
  if (formed_ && !stopped_ && ready_since_) {
    const auto joins = std::max(*ready_since_, formed_at_.value_or(*ready_since_)) + limits_.interval;
    next = std::min(next.value_or(joins), joins);
  }
  return next;
}

Resizing::End Resizing::ended(int number, bool failed, const std::string& how) {
  Slot& slot = slots_[static_cast<std::size_t>(number)];
  if (slot.state == State::kMember || slot.state == State::kFree || slot.state == State::kAbsent) return End::kOfMember;
  if (slot.state == State::kAsked && stopped_) return End::kOfMember;
  // What it left running must not use the GPU.
  actions_.signal(number, SIGKILL);
  const Slot before = slot;
  const bool came = before.state == State::kStarting || before.state == State::kJoining;
  slot.failed = (failed || came) && !before.signalled;
  clear(slot);
  answer(came ? "failed" : "left", before.device, came ? how : std::string());
  const bool by_itself = failed && !before.signalled;
  if (by_itself || (came && !stopped_)) {
    const std::string with = before.device.empty() ? std::string() : " with " + before.device;
    actions_.tell(fmt::format("the rank that was to {}{} {}", came ? "join" : "leave", with, how));
  }
  if (before.state == State::kJoining || before.state == State::kAsked)
    begin_world(/*all_live=*/before.state == State::kJoining);
  if (before.signalled || before.going) return by_itself && !came ? End::kHarmful : End::kAsTold;
  return by_itself && before.state != State::kStarting ? End::kHarmful : End::kApart;
}

// It is free again, or its host has no process any more.
void Resizing::clear(Slot& slot) {
  const std::size_t host = slot.host;
  const bool going = slot.going;
  slot =
      Slot{.state = going ? State::kAbsent : State::kFree, .host = host, .barred = slot.barred, .failed = slot.failed};
  const auto remains = [&](const Slot& other) { return other.host == host && other.state != State::kAbsent; };
  if (going && std::ranges::none_of(slots_, remains)) actions_.left(host);
}

// Those that have not joined yet may fail to, so that they do not count.
bool Resizing::lose(int number) {
  Slot& slot = slots_[static_cast<std::size_t>(number)];
  if (limits_.least == 0 || stopped_ || slot.state != State::kMember || staying() - 1 < limits_.least) return false;
  actions_.signal(number, SIGKILL);  // what it left running
  std::string device = std::move(slot.device);
  slot.failed = true;
  clear(slot);
  slot.device = std::move(device);
  actions_.begin_world(/*all_live=*/false);
  return true;
}

bool Resizing::has_member(std::size_t host) const {
  return std::ranges::any_of(slots_, [&](const Slot& slot) {
    return slot.host == host && (slot.state == State::kMember || (stopped_ && slot.state == State::kAsked));
  });
}

bool Resizing::lose_host(std::size_t host) {
  const auto lost = [host](const Slot& slot) { return slot.host == host && slot.state != State::kAbsent; };
  const auto left = std::ranges::count_if(
      slots_, [&](const Slot& slot) { return slot.state == State::kMember && slot.host != host; });
  if (limits_.least == 0 || (has_member(host) && (stopped_ || left < limits_.least))) return false;
  bool changes = false, all_live = true;
  for (Slot& slot : slots_) {
    if (!lost(slot)) continue;
    const bool member = slot.state == State::kMember || slot.state == State::kAsked;
    changes = changes || member || slot.state == State::kJoining;
    all_live = all_live && !member && slot.state != State::kLeaving;
    slot = Slot{.state = State::kAbsent, .host = host};
  }
  if (changes) begin_world(all_live);
  return true;
}

void Resizing::take_host(std::size_t host, std::span<const int> numbers) {
  for (const int number : numbers) {
    const auto slot = static_cast<std::size_t>(number);
    if (slot >= slots_.size()) slots_.resize(slot + 1, Slot{.state = State::kAbsent});
    slots_[slot] = Slot{.state = State::kFree, .host = host};
  }
}

bool Resizing::host_leaves(std::size_t host) const {
  return std::ranges::all_of(
      slots_, [host](const Slot& slot) { return slot.host != host || slot.state == State::kAbsent || slot.going; });
}

bool Resizing::leave_host(std::size_t host, Clock::time_point deadline) {
  const auto now = Clock::now();
  const auto left = std::ranges::count_if(
      slots_, [&](const Slot& slot) { return slot.state == State::kMember && slot.host != host; });
  if (stopped_ || left < std::max(limits_.least, 1)) return false;
  for (Slot& slot : slots_)
    if (slot.host == host && slot.state != State::kAbsent) slot.going = true;
  for (Slot& slot : slots_) {
    if (slot.host != host || slot.state == State::kAbsent) continue;
    if (slot.state == State::kStarting || slot.state == State::kJoining) {
      end(slot, now);
    } else if (slot.state == State::kMember) {
      slot.state = State::kAsked;
      slot.terminate_at = deadline;
    } else if (slot.state == State::kFree) {
      clear(slot);
    }
  }
  return true;
}

std::set<std::size_t> Resizing::hosts_that_stay() const {
  std::set<std::size_t> hosts;
  for (const Slot& slot : slots_)
    if (!slot.going && !slot.barred && slot.state != State::kAbsent && slot.state != State::kLeaving)
      hosts.insert(slot.host);
  return hosts;
}

bool Resizing::is_joining(int number) const {
  return slots_[static_cast<std::size_t>(number)].state == State::kJoining;
}

void Resizing::bar(int number) {
  const std::size_t host = slots_[static_cast<std::size_t>(number)].host;
  const bool reached = std::ranges::any_of(slots_, [host](const Slot& slot) {
    return slot.host == host && (slot.state == State::kMember || slot.state == State::kAsked);
  });
  const auto now = Clock::now();
  for (Slot& slot : slots_) {
    if (reached ? number_of(slot) != number : slot.host != host) continue;
    slot.barred = true;
    if (slot.state != State::kStarting && slot.state != State::kJoining) continue;
    slot.state = State::kLeaving;
    slot.kill_at = now + limits_.grace;
    signal(slot, SIGTERM);
  }
  begin_world(/*all_live=*/true);
}

bool Resizing::begin_together(int number) {
  slots_[static_cast<std::size_t>(number)].fresh = true;
  for (const Slot& slot : slots_)
    if (!slot.fresh && (slot.state == State::kMember || slot.state == State::kAsked)) return false;
  for (Slot& slot : slots_)
    if (slot.state == State::kStarting && !slot.signalled) {
      slot.state = State::kMember;
      slot.fresh = true;
    }
  return true;
}

bool Resizing::take_along(int number) {
  Slot& slot = slots_[static_cast<std::size_t>(number)];
  if (slot.state != State::kFree || slot.going) return false;
  slot.failed = false;
  slot.state = State::kMember;
  slot.fresh = true;
  return true;
}

void Resizing::bring_back(int number) {
  Slot& slot = slots_[static_cast<std::size_t>(number)];
  if (stopped_ || slot.state != State::kFree || slot.barred || slot.going) return;
  slot.failed = false;
  slot.state = State::kStarting;
  actions_.start(number, slot.device);
}

bool Resizing::leaves(int slot) const {
  const State state = slots_[static_cast<std::size_t>(slot)].state;
  return state == State::kAsked || state == State::kLeaving;
}

// A newcomer would wait alone for ranks that have ended.
void Resizing::stop() {
  if (std::exchange(stopped_, true)) return;
  for (Slot& slot : slots_) {
    if (slot.state != State::kStarting && slot.state != State::kJoining) continue;
    if (slot.device.empty())
      actions_.tell(fmt::format("rank {} had not joined the others, and is ended", number_of(slot)));
    end(slot, Clock::now());
  }
}

void Resizing::read(Clock::time_point now) {
  std::array<char, 4096> part;
  while (control_.valid()) {
    const auto count = ::recv(control_.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count > 0) input_.append(part.data(), static_cast<std::size_t>(count));
    for (auto end = input_.find('\n'); control_.valid() && end != std::string::npos; end = input_.find('\n')) {
      const std::string line = input_.substr(0, end);
      input_.erase(0, end + 1);
      take(line, now);
    }
    if (!control_.valid()) return;
    if (input_.size() > kLongestRequest)
      actions_.tell(fmt::format(
          "--resize: {} came without the end of a line; the connection is closed, and the job stays as it is",
          counted(std::ssize(input_), "byte")));
    if (count <= 0 || input_.size() > kLongestRequest) control_ = Fd();
  }
}

void Resizing::take(std::string_view line, Clock::time_point now) {
  const auto words = split_text(line, ' ');
  if (words.size() == 2 && words[0] == "join")
    join(words[1]);
  else if (words.size() == 3 && words[0] == "leave")
    leave(words[1], words[2], now);
  else
    answer("refused", words.size() > 1 ? words[1] : std::string("-"), "neither `join GPU` nor `leave GPU SECONDS`");
}

void Resizing::join(const std::string& device) {
  if (device.empty() || device.size() > kMostDeviceName) return answer("refused", device, "not the name of a GPU");
  if (stopped_) return answer("refused", device, "the job is about to end");
  if (with_device(device) != nullptr) return answer("refused", device, "a rank has this GPU");
  const auto slot = std::ranges::find(slots_, State::kFree, &Slot::state);
  if (slot == slots_.end())
    return answer("refused", device, fmt::format("the job has {} already", counted(std::ssize(slots_), "rank")));
  slot->state = State::kStarting;
  slot->device = device;
  actions_.start(number_of(*slot), device);
}

void Resizing::leave(const std::string& device, std::string_view seconds, Clock::time_point now) {
  const auto timeout = parse_number(std::string(seconds));
  if (!timeout || !(*timeout >= 0) || *timeout > kLongestLeave)
    return answer("refused", device, "not a number of seconds");
  Slot* const slot = with_device(device);
  if (slot == nullptr) return answer("refused", device, "no rank has this GPU");
  if (slot->state == State::kLeaving) return;
  // It has nothing to finish yet.
  if (slot->state == State::kStarting || slot->state == State::kJoining) return end(*slot, now);
  const auto stays = [&](const Slot& one) { return &one != slot && one.state == State::kMember; };
  if (slot->state == State::kMember && std::ranges::none_of(slots_, stays))
    return answer("refused", device, "it is the only rank");
  slot->state = State::kAsked;
  slot->terminate_at = now + std::chrono::round<Clock::duration>(std::chrono::duration<double>(*timeout));
}

Resizing::Slot* Resizing::with_device(const std::string& device) {
  const auto slot =
      std::ranges::find_if(slots_, [&](const Slot& one) { return one.state != State::kFree && one.device == device; });
  return slot == slots_.end() ? nullptr : &*slot;
}

void Resizing::answer(std::string_view what, const std::string& device, std::string_view why) {
  if (!control_.valid()) return;
  answers_ += fmt::format("{} {}{}{}\n", what, device, why.empty() ? "" : " ", why);
  send_answers();
  if (answers_.size() <= kMostAnswers) return;
  actions_.tell(
      fmt::format("--resize: {} of answers wait for their reader; the connection is closed, and the job stays as it is",
                  counted(std::ssize(answers_), "byte")));
  answers_.clear();
  control_ = Fd();
}

void Resizing::send_answers() {
  while (!answers_.empty() && control_.valid()) {
    const auto count = ::send(control_.get(), answers_.data(), answers_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count < 0) return answers_.clear();  // the other program reads nothing any more
    answers_.erase(0, static_cast<std::size_t>(count));
  }
}

}  // namespace xoe::launch
