#include "engine/core.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>

#include "base/env.h"
#include "base/error.h"
#include "base/relax.h"

namespace xoe::engine {
namespace {

// How long to stay awake before sleeping, and how often to look at the clock meanwhile, in turns.
constexpr std::chrono::microseconds kAwake(100);
constexpr unsigned kTurnsPerLook = 128;
constexpr std::chrono::nanoseconds kBurst = std::chrono::microseconds(30);
constexpr std::chrono::microseconds kNap(1000);
constexpr unsigned kYieldsPerLook = 16;
constexpr unsigned kPollsPerLook = 64;

// The program's signals are for the program's threads.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

// Keeps a process set from being removed.
class Core::SetUse {
 public:
  SetUse(Core& core, ProcessSetId id) {
    if (id < 0 || id >= kMaxSets) return;
    slot_ = &core.sets_[static_cast<std::size_t>(id)];
    slot_->users.fetch_add(1, std::memory_order_seq_cst);
    set_ = slot_->set.load(std::memory_order_seq_cst);
  }
  SetUse(const SetUse&) = delete;
  ~SetUse() {
    if (slot_ != nullptr) slot_->users.fetch_sub(1, std::memory_order_seq_cst);
  }
  ProcessSet* get() const noexcept { return set_; }
  bool exists() const noexcept { return slot_ != nullptr && slot_->exists.load(std::memory_order_acquire); }

 private:
  SetSlot* slot_ = nullptr;
  ProcessSet* set_ = nullptr;
};

// This thread drives. REQUIRES: drive_mutex_.
class Core::Driving {
 public:
  explicit Driving(Core& core) : core_(core) {
    core_.driver_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  Driving(const Driving&) = delete;
  ~Driving() { core_.driver_.store(std::thread::id(), std::memory_order_relaxed); }

 private:
  Core& core_;
};

Result<std::shared_ptr<Core>> Core::create(Communicator world, EngineOptions options, std::shared_ptr<GpuPort> gpu) {
  if (!options.warn)
    options.warn = [rank = world.rank()](std::string_view line) {
      std::fprintf(stderr, "xoe: rank %d: %.*s\n", rank, static_cast<int>(line.size()), line.data());
    };
  std::shared_ptr<Core> core(new Core(std::move(options), world.topology()));
  core->gpu_ = gpu ? std::move(gpu) : GpuPort::of_process(Env::process(), world.topology().local_rank);
  core->oversubscribed_ = world.backend().host_group().oversubscribed();
  XOE_ASSIGN(core->watch_, Watch::create(core->options_, world));
  std::vector<int> ranks;
  for (int r = 0; r < world.size(); ++r) ranks.push_back(r);
  XOE_ASSIGN(auto set, ProcessSet::create(kWorldSet, std::move(world), ranks, core->options_, core->gpu_, *core));
  core->world_ = set.release();
  core->sets_[0].set.store(core->world_);
  core->sets_[0].exists.store(true);
  core->set_count_.store(1);
  core->set_ranks_.push_back(std::move(ranks));
  if (core->options_.progress_thread)
    core->thread_.emplace([self = core.get()](const std::stop_token& stop) { self->progress(stop); });
  return core;
}

Core::~Core() {
  for (SetSlot& slot : sets_) delete slot.set.load();
}

void Core::shut_down() {
  if (closed_.exchange(true)) return;
  if (fork_mark_.forked()) {
    // The thread exists in the parent only, and so do the memory's other users.
    if (thread_) new std::optional<std::jthread>(std::move(thread_));
    return;
  }
  if (thread_) {
    thread_->request_stop();
    rouse();
    world_->wake();
    thread_.reset();
  }
  {
    const std::lock_guard lock(drive_mutex_);
    const Driving driving(*this);
    const Error cause(Code::kUnavailable, "the engine was shut down before it completed");
    each_set([&](ProcessSet& set) { set.fail(cause); });
    world_->wake();
  }
  while (waiters_.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  std::vector<std::unique_ptr<ProcessSet>> sets;
  {
    const std::lock_guard lock(drive_mutex_);  // some thread may still poll a handle
    for (SetSlot& slot : sets_)
      if (ProcessSet* set = slot.set.exchange(nullptr); set != nullptr) sets.emplace_back(set);
  }
  while (!sets.empty()) sets.pop_back();  // the world last
}

Status Core::check_usable() const {
  if (fork_mark_.forked()) [[unlikely]]
    return failure(Code::kUnavailable,
                   "this process was forked from the one that made the engine; make an engine of its own, or start the "
                   "child with exec");
  if (closed_.load(std::memory_order_relaxed)) return failure(Code::kUnavailable, "the engine was shut down");
  return {};
}

// --- submitting ---

Result<std::shared_ptr<Submission>> Core::submit(const Request& request, Use use) {
  XOE_TRY(check_usable());
  std::shared_ptr<Submission> submission;
  {
    // Not held any longer than this: driving may remove the set.
    const SetUse set_use(*this, request.process_set);
    XOE_TRY(check_member(request, set_use.get(), set_use.exists()));
    ProcessSet& set = *set_use.get();
    XOE_ASSIGN(submission, Submission::make(request, std::string(request.name), set.rank(), set.size()));
    if (request.op.gpu) XOE_TRY(admit_gpu_memory(request, *submission));
    // Counted only now: a request that is refused must not shift this rank's nameless ones against the others'.
    if (submission->name.empty())
      submission->name = request.op.kind == OpKind::kJoin ? "join" : set.next_name(request.op.kind);
    XOE_TRY(hand_over(set, submission));
  }
  // From a callback: the loop that called it goes on. Who waits drives by himself.
  if (is_driving() || use == Use::kWaited) return submission;
  drive_for(*submission);
  return submission;
}

// An idle wire sends at once. A busy one is not looked at with each submission of a burst: what becomes ready meanwhile
// travels together.
void Core::drive_for(const Submission& submission) {
  const auto now = submission.submitted.time_since_epoch().count();
  if (!busy_.load(std::memory_order_relaxed) ||
      now - last_drive_ns_.load(std::memory_order_relaxed) >= kBurst.count()) {
    last_drive_ns_.store(now, std::memory_order_relaxed);
    try_drive();
  }
  if (!options_.progress_thread || pending().load() == 0) return;
  if (submission.has_callback()) urgent_.store(true, std::memory_order_relaxed);
  rouse();
}

Status Core::check_member(const Request& request, const ProcessSet* set, bool exists) const {
  if (set != nullptr) return {};
  if (!exists)
    return failure(Code::kInvalidArgument, "{} '{}': there is no process set {}", op_kind_name(request.op.kind),
                   request.name, request.process_set);
  XOE_ASSIGN(const auto ranks, process_set_ranks(request.process_set));
  return failure(Code::kInvalidArgument, "{} '{}': rank {} is not in process set {} [{}]",
                 op_kind_name(request.op.kind), request.name, topology_.rank, request.process_set,
                 fmt::join(ranks, ", "));
}

Status Core::takes_gpu_memory() {
  XOE_ASSIGN([[maybe_unused]] const auto* const provider, gpu_->provider());
  return {};
}

Status Core::admit_gpu_memory(const Request& request, Submission& submission) {
  auto provider = gpu_->provider();
  if (!provider) return failure(provider.error().code(), "{}: {}", submission.title(), provider.error().message());
  std::vector<const void*> addresses;
  for (const TensorCopy& t : submission.tensors)
    for (const std::byte* const address : {t.in, static_cast<const std::byte*>(t.out)})
      if (address != nullptr && t.count != 0) addresses.push_back(address);
  auto mark = (*provider)->admit(addresses, request.stream);
  if (!mark) return failure(mark.error().code(), "{}: {}", submission.title(), mark.error().message());
  submission.mark = std::move(*mark);
  return {};
}

Status Core::hand_over(ProcessSet& set, const std::shared_ptr<Submission>& submission) {
  submission->core = weak_from_this();
  submission->submitted = EngineClock::now();
  XOE_TRY(submission->op.kind == OpKind::kJoin ? set.join(submission) : set.submit(submission));
  set.wake();
  return {};
}

bool Core::poll(Submission& submission) {
  if (submission.done() || fork_mark_.forked() || is_driving()) return submission.done();
  if (!try_drive() && !submission.done() && idle_polls_.fetch_add(1, std::memory_order_relaxed) % kPollsPerLook == 0)
    // Not after who drives: he may be waiting for a lock of this thread's, in an allocator.
    if (const std::unique_lock lock(drive_mutex_, std::try_to_lock); lock) look_around_locked();
  return submission.done();
}

Status Core::wait(Submission& submission, std::optional<EngineClock::time_point> until) {
  if (submission.done()) return submission.status();
  if (fork_mark_.forked()) return check_usable();
  if (is_driving())
    return failure(Code::kInvalidArgument, "{}: wait() inside a callback would wait for itself", submission.title());
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  EngineClock::time_point awake_since{};  // not looked at the clock yet
  bool late = false;
  bool listed = false;
  for (unsigned turn = 1; !submission.done() && !late; ++turn) {
    if (try_drive())
      awake_since = {};
    else if (!submission.done())
      relax(oversubscribed_);
    if (submission.done() || turn % (oversubscribed_ ? kYieldsPerLook : kTurnsPerLook) != 0) continue;
    const auto now = EngineClock::now();
    late = until && now >= *until;
    if (awake_since == EngineClock::time_point{}) awake_since = now;
    if (late || now - awake_since < kAwake) continue;
    sleep_until_done(submission, until, std::exchange(listed, true));
    awake_since = {};
  }
  if (listed) watch_->stalls().unblock(submission);
  const bool done = submission.done();
  // In this order: who submits meanwhile and finds a waiter relies on it, or on the thread.
  if (waiters_.fetch_sub(1, std::memory_order_seq_cst) == 1 && options_.progress_thread && pending().load() != 0)
    rouse();
  if (!done) return failure(Code::kTimeout, "{}: not completed yet; it goes on", submission.title());
  return submission.status();
}

void Core::sleep_until_done(Submission& submission, std::optional<EngineClock::time_point> until, bool listed) {
  if (!listed) watch_->stalls().block(submission);
  const auto ready = [&] {
    while (drive()) {
    }
    return submission.done();
  };
  look_around();
  const auto wake_up = EngineClock::now() + watch_->stalls().period();
  world_->host_group().sleep(ready, until ? std::min(*until, wake_up) : wake_up);
}

Result<SharedBuffer> Core::shared_buffer(std::size_t bytes) {
  XOE_TRY(check_usable());
  return world_->comm().shared_buffer(bytes);
}

// --- driving ---

bool Core::drive_locked() {
  const Driving driving(*this);
  bool moved = false;
  each_set([&](ProcessSet& set) { moved |= set.advance(); });
  bool busy = false;
  each_set([&](const ProcessSet& set) { busy |= set.busy(); });
  busy_.store(busy, std::memory_order_relaxed);
  if (moved && pending().load() == 0) end_step();
  return moved;
}

void Core::end_step() {
  if (const auto knobs = watch_->end_step()) each_set([&](ProcessSet& set) { set.set_knobs(*knobs); });
}

bool Core::try_drive() {
  if (!drive_mutex_.try_lock()) return false;
  const std::lock_guard lock(drive_mutex_, std::adopt_lock);
  return drive_locked();
}

bool Core::drive() {
  const std::lock_guard lock(drive_mutex_);
  return drive_locked();
}

void Core::look_around() {
  const std::lock_guard lock(drive_mutex_);
  look_around_locked();
}

void Core::look_around_locked() {
  const Driving driving(*this);
  std::vector<ProcessSet*> sets;
  each_set([&](ProcessSet& set) {
    set.look_for_failures();
    sets.push_back(&set);
  });
  watch_->look(sets);
}

void Core::rouse() noexcept {
  work_.fetch_add(1, std::memory_order_seq_cst);
  work_.notify_one();
}

void Core::progress(const std::stop_token& stop) {
  const auto needed = [&] { return !stop.stop_requested() && waiters_.load(std::memory_order_seq_cst) == 0; };
  block_signals();
  unsigned busy = 0;
  while (!stop.stop_requested()) {
    const std::uint32_t heard = work_.load(std::memory_order_seq_cst);
    if (!needed() || pending().load() == 0) {
      if (!stop.stop_requested()) work_.wait(heard, std::memory_order_seq_cst);
      // Who has just submitted most likely submits more, or waits: driving is better left to him.
      if (!urgent_.exchange(false)) std::this_thread::sleep_for(kNap);
      watch_->trace().flush_if_full();
      continue;
    }
    if (drive() && ++busy % kTurnsPerLook != 0) continue;
    look_around();
    const auto wake_up = EngineClock::now() + watch_->stalls().period();
    watch_->trace().flush_if_full();
    const auto ready = [&] {
      while (needed() && drive()) {
      }
      return !needed() || pending().load() == 0;
    };
    world_->host_group().sleep(ready, wake_up);
  }
}

Status Core::start_timeline(const std::string& path) {
  const bool creates = topology_.local_rank == 0;
  Status made;
  if (creates) made = watch_->trace().start(path, true);
  XOE_ASSIGN(const auto met, run_internal_request(InternalKind::kMeet, "start_timeline", {}));
  return creates ? made : watch_->trace().start(path, false);
}

// --- what sets tell ---

// What ended one set ends others too: whoever has been told of it must not find them usable any more.
void Core::failing(const ProcessSet& set, const Error& cause) {
  // All ranks are in the world. A set is left by its ranks only when all have agreed to, so a rank that is lost to one
  // is lost to all.
  if (cause.code() == Code::kPeerLost && &set != world_) world_->fail(cause);
  each_set([](ProcessSet& other) { other.look_for_failures(); });
}

void Core::all_joined(const ProcessSet& set) {
  if (&set != world_) return;
  const std::lock_guard lock(ranks_mutex_);
  internal_names_.clear();
}

void Core::look_for_failures() {
  if (is_driving() || !drive_mutex_.try_lock()) return;
  const std::lock_guard lock(drive_mutex_, std::adopt_lock);
  const Driving driving(*this);
  each_set([](ProcessSet& set) { set.look_for_failures(); });
}

void Core::agreed(const ProcessSet&, Submission& submission, int last, std::chrono::nanoseconds waited) {
  watch_->agreed(submission, last, waited);
}

void Core::batch_done(const ProcessSet&, const Running& running, const Status& status) {
  watch_->batch_done(running, status);
}

void Core::completing(const ProcessSet&, Submission& submission, const Status& status) {
  watch_->completing(submission, status);
}

std::string Core::metrics() {
  watch_->metrics().queue_depth(static_cast<std::size_t>(pending().load()));
  return watch_->metrics().text();
}

}  // namespace xoe::engine
