#include "core/engine/runtime/runtime.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <thread>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/bootstrap/failing_rank.h"
#include "core/comm/tell_of_loss.h"
#include "core/comm/world_history.h"

namespace xoe::engine {

namespace {

constexpr std::size_t kLongestReason = 300;  // bytes
constexpr std::chrono::seconds kAbortTimeout(1);

std::string cut(const std::string& reason) {
  std::size_t end = 0;
  while (end < reason.size() && end + utf8_length(reason.substr(end, 4)) <= kLongestReason)
    end += utf8_length(reason.substr(end, 4));
  return reason.substr(0, end);
}

Error closed_error() { return Error(Code::kUnavailable, "the engine was shut down"); }

}  // namespace

Result<std::shared_ptr<Runtime>> Runtime::create(Communicator world, EngineOptions options,
                                                 std::shared_ptr<GpuPlugin> gpu) {
  if (!options.warn)
    options.warn = [rank = world.rank()](std::string_view line) {
      std::fprintf(stderr, "xoe: rank %d: %.*s\n", rank, static_cast<int>(line.size()), line.data());
    };
  std::shared_ptr<Runtime> runtime(new Runtime(std::move(options), world.topology()));
  runtime->gpu_ = gpu ? std::move(gpu) : GpuPlugin::of_process(Env::process(), world.topology().local_rank);
  const bool oversubscribed = world.backend().host_group().oversubscribed();
  // The port of the metrics may be taken on this rank alone: that comes after what all ranks do together.
  XOE_ASSIGN(runtime->tuner_, EngineTuner::create(runtime->options_, world));
  XOE_ASSIGN(runtime->telemetry_,
             Telemetry::create(runtime->options_, world, bootstrap::StatusWriter::of_process(Env::process())));
  runtime->stalls_.emplace(runtime->options_, world.rank(), *runtime->telemetry_);
  runtime->progress_.emplace(runtime->sets_, *runtime->telemetry_, runtime->tuner_.get(), *runtime->stalls_,
                             runtime->fork_, oversubscribed);
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  XOE_ASSIGN(auto set, runtime->form_set(kWorldSet, std::move(world), std::move(ranks)));
  runtime->sets_.add_world(std::move(set));
  if (runtime->options_.progress_thread) runtime->progress_->start_thread();
  return runtime;
}

Result<std::unique_ptr<ProcessSet>> Runtime::form_set(ProcessSetId id, Communicator comm, std::vector<int> ranks) {
  const ProcessSetServices services{.telemetry = *telemetry_,
                                    .tuner = tuner_.get(),
                                    .progress_lock = progress_->lock(),
                                    .pending = progress_->pending(),
                                    .owner = *this};
  return ProcessSet::create(id, std::move(comm), std::move(ranks), options_, gpu_, services);
}

void Runtime::shut_down() {
  if (closed_.exchange(true)) return;
  // A forked child has neither the thread nor the other users of the memory.
  if (fork_.forked()) return progress_->abandon_thread();
  progress_->stop_thread();
  {
    const std::lock_guard lock(progress_->lock());
    const Error cause(Code::kUnavailable, "the engine was shut down before it completed");
    sets_.each([&](ProcessSet& set) { set.fail(cause); });
    sets_.world().wake();
  }
  while (progress_->waiters() != 0) std::this_thread::yield();
  std::vector<std::unique_ptr<ProcessSet>> sets;
  {
    const std::lock_guard lock(progress_->lock());  // another thread may still poll a handle
    sets = sets_.take_all();
  }
  sets_.wait_until_unused(sets);
  while (!sets.empty()) sets.pop_back();  // the world last
}

Status Runtime::abort(std::string_view why) {
  // Ranks that end because of another one have nothing to announce.
  XOE_TRY(check_world());
  // Before the peers, which may end at once. Without a launcher that listens the peers can still be told.
  static_cast<void>(bootstrap::announce_failing(Env::process()));
  const Error cause(Code::kPeerLost, fmt::format("rank {} failed: {}", topology_.rank, cut(printable_utf8(why))));
  {
    const ProcessSetRegistry::Use world(sets_, kWorldSet);
    if (world.get() == nullptr) return failure(closed_error());
    world.get()->comm().backend().abort(cause);
  }
  // The other sets; what makes progress now may have waited for a peer, and does not any more.
  progress_->exclusive_within(kAbortTimeout, [&] { sets_.each([&](ProcessSet& set) { set.abort(cause); }); });
  return {};
}

Status Runtime::check_usable() const {
  if (fork_.forked()) [[unlikely]]
    return failure(Code::kUnavailable,
                   "this process was forked from the one that made the engine; make an engine of its own, or start the "
                   "child with exec");
  if (closed_.load(std::memory_order_relaxed)) return failure(closed_error());
  return {};
}

Status Runtime::check_world() {
  XOE_TRY(check_usable());
  const ProcessSetRegistry::Use world(sets_, kWorldSet);
  if (world.get() == nullptr) return failure(closed_error());
  if (!world.get()->failed()) progress_->try_check_failures();
  return world.get()->failed() ? world.get()->refuse() : Status{};
}

void Runtime::keep(SharedBuffer buffer, std::function<bool(const SharedBuffer&)> unused) {
  const std::lock_guard lock(mutex_);
  std::erase_if(kept_, [](const Kept& kept) { return kept.unused(kept.buffer); });
  kept_.push_back({std::move(buffer), std::move(unused)});
}

// --- operations ---

Result<std::shared_ptr<Submission>> Runtime::submit(const Request& request, Use use) {
  XOE_TRY(check_usable());
  std::shared_ptr<Submission> submission;
  {
    // The set is not kept any longer: progress may remove it.
    const ProcessSetRegistry::Use set_use(sets_, request.process_set);
    if (set_use.get() == nullptr) {
      XOE_TRY(check_usable());
      return failure(not_member(request, set_use.exists()).error());
    }
    ProcessSet& set = *set_use.get();
    XOE_ASSIGN(submission, set.make_submission(request));
    if (request.op.gpu) XOE_TRY(admit_gpu_memory(request, *submission));
    if (request.op.kind == OpKind::kJoin && submission->operation().name.empty()) submission->set_name("join");
    XOE_TRY(enqueue(set, submission));
  }
  // In a callback the loop that called it goes on; a thread that waits makes progress itself.
  if (use == Use::kAsync && !progress_->lock().held_by_this_thread()) progress_->submitted(*submission);
  return submission;
}

Status Runtime::not_member(const Request& request, bool exists) const {
  if (!exists)
    return failure(Code::kInvalidArgument, "{} '{}': there is no process set {}", op_kind_name(request.op.kind),
                   request.name, request.process_set);
  XOE_ASSIGN(const auto ranks, sets_.ranks(request.process_set));
  return failure(Code::kInvalidArgument, "{} '{}': rank {} is not in process set {} [{}]",
                 op_kind_name(request.op.kind), request.name, topology_.rank, request.process_set,
                 fmt::join(ranks, ", "));
}

Status Runtime::takes_gpu_memory() {
  XOE_ASSIGN([[maybe_unused]] const auto* const provider, gpu_->provider());
  return {};
}

Status Runtime::admit_gpu_memory(const Request& request, Submission& submission) {
  auto provider = gpu_->provider();
  if (!provider)
    return failure(provider.error().code(), "{}: {}", submission.operation().title(), provider.error().message());
  std::vector<const void*> addresses;
  for (const TensorCopy& t : submission.operation().tensors)
    for (const std::byte* const address : {t.in, static_cast<const std::byte*>(t.out)})
      if (address != nullptr && t.count != 0) addresses.push_back(address);
  auto mark = (*provider)->admit(addresses, request.stream);
  if (!mark) return failure(mark.error().code(), "{}: {}", submission.operation().title(), mark.error().message());
  submission.set_mark(std::move(*mark));
  if (gpu_->settings().waits_in_stream)
    submission.launched = std::make_unique<Launched>(submission.operation().sizes.size());
  return {};
}

Status Runtime::enqueue(ProcessSet& set, const std::shared_ptr<Submission>& submission) {
  if (submission->runtime.expired()) submission->runtime = weak_from_this();  // it may have been kept
  submission->progress.submitted = EngineClock::now();
  if (const Profiler* const profiler = telemetry_->profiler())
    submission->progress.range =
        profiler->start(ProfiledStage::kNegotiate, submission->operation().name, submission->operation().bytes());
  stalls_->expect(submission->operation().timeout);
  XOE_TRY(submission->operation().op.kind == OpKind::kJoin ? set.join(submission) : set.submit(submission));
  set.wake();
  return {};
}

Status Runtime::wait(Submission& submission, std::optional<EngineClock::time_point> until) {
  if (submission.done()) return submission.status();
  if (fork_.forked()) return check_usable();
  return progress_->wait(submission, until);
}

Status Runtime::wait_in_stream(Submission& submission, void* stream, std::optional<EngineClock::time_point> until) {
  if (!submission.launched || fork_.forked()) return wait(submission, until);
  if (!submission.done()) XOE_TRY(progress_->wait(submission, until, /*launched=*/true));
  if (submission.done()) return submission.status();
  XOE_ASSIGN(net::Provider* const provider, gpu_->provider());
  return provider->order(stream, submission.launched->events());
}

Result<SharedBuffer> Runtime::shared_buffer(std::size_t bytes) {
  XOE_TRY(check_usable());
  const ProcessSetRegistry::Use world(sets_, kWorldSet);
  if (world.get() == nullptr) return failure(closed_error());
  return world.get()->comm().shared_buffer(bytes);
}

namespace {

constexpr std::int64_t kNoBlock = -1;

struct Extent {
  std::int64_t block;
  std::int64_t bytes;
};

// The same answer on all ranks.
Status check_extents(std::span<const Extent> extents, std::string_view name) {
  for (std::size_t r = 0; r < extents.size(); ++r) {
    if (extents[r].block == kNoBlock)
      return failure(Code::kInvalidArgument, "map_peers '{}': rank {}'s buffer is not a shared_buffer() of this engine",
                     name, r);
    if (extents[r].bytes != extents[0].bytes)
      return failure(Code::kInvalidArgument, "map_peers '{}': rank 0's buffer has {}, rank {}'s has {}", name,
                     human_bytes(static_cast<std::size_t>(extents[0].bytes)), r,
                     human_bytes(static_cast<std::size_t>(extents[r].bytes)));
  }
  return {};
}

}  // namespace

Result<std::vector<SharedBuffer>> Runtime::map_peers(const SharedBuffer& mine, std::string_view name) {
  XOE_TRY(check_usable());
  const ProcessSetRegistry::Use world(sets_, kWorldSet);
  if (world.get() == nullptr) return failure(closed_error());
  const HostGroup& host = world.get()->host_group();
  const auto block = host.block_of(mine);
  const Extent own{block ? static_cast<std::int64_t>(*block) : kNoBlock, static_cast<std::int64_t>(mine.bytes())};
  constexpr std::int64_t kShape[] = {1, 2};
  const TensorArg extent{.in = &own, .dtype = DType::kInt64, .shape = kShape};
  XOE_ASSIGN(
      const auto gathered,
      submit({.name = name, .op = {.kind = OpKind::kAllgather, .needs_all_ranks = true}, .tensors = {&extent, 1}},
             Use::kWaited));
  XOE_TRY(wait(*gathered, std::nullopt));
  const std::span extents(static_cast<const Extent*>(gathered->outcome.outputs[0].data),
                          static_cast<std::size_t>(topology_.size));
  XOE_TRY(check_extents(extents, name));
  const std::vector<int>& hosts = host.hosts();
  const int own_host = hosts[static_cast<std::size_t>(topology_.rank)];
  std::vector<SharedBuffer> peers(extents.size());
  for (std::size_t r = 0; r < extents.size(); ++r)
    if (hosts[r] == own_host) peers[r] = host.view(static_cast<std::uint64_t>(extents[r].block), mine.bytes());
  return peers;
}

// --- operations of the engine itself ---

// Several threads may ask for the same at once: a rank's n-th request meets the other ranks' n-th.
std::string Runtime::internal_name(const std::string& what) {
  const std::lock_guard lock(mutex_);
  return fmt::format("{} #{}", what, ++internal_names_[what]);
}

Result<std::shared_ptr<Submission>> Runtime::run_internal_request(InternalKind kind, const std::string& what,
                                                                  std::vector<std::int64_t> argument) {
  XOE_TRY(check_usable());
  auto submission =
      std::make_shared<Submission>(SubmittedOperation::make_internal(kind, internal_name(what), std::move(argument)));
  {
    const ProcessSetRegistry::Use world(sets_, kWorldSet);
    if (world.get() == nullptr) return failure(closed_error());
    XOE_TRY(enqueue(*world.get(), submission));
  }
  XOE_TRY(wait(*submission, std::nullopt));
  return submission;
}

Result<ProcessSetId> Runtime::add_process_set(std::span<const int> ranks) {
  if (ranks.empty()) return failure(Code::kInvalidArgument, "add_process_set: no ranks");
  std::vector<bool> seen(static_cast<std::size_t>(topology_.size));
  for (const int rank : ranks) {
    if (rank < 0 || rank >= topology_.size)
      return failure(Code::kInvalidArgument, "add_process_set: rank {} is not one of the {} ranks", rank,
                     topology_.size);
    if (seen[static_cast<std::size_t>(rank)])
      return failure(Code::kInvalidArgument, "add_process_set: rank {} is there twice", rank);
    seen[static_cast<std::size_t>(rank)] = true;
  }
  XOE_ASSIGN(const auto done,
             run_internal_request(InternalKind::kAddProcessSet, "add_process_set", {ranks.begin(), ranks.end()}));
  return done->outcome.process_set;
}

Status Runtime::remove_process_set(ProcessSetId id) {
  if (id == kWorldSet) return failure(Code::kInvalidArgument, "remove_process_set: set 0 is the world; it stays");
  XOE_ASSIGN(const auto done, run_internal_request(InternalKind::kRemoveProcessSet, "remove_process_set", {id}));
  return {};
}

Result<std::string> Runtime::path_of_rank_0(const std::string& own) {
  const std::string name = internal_name("start_timeline path");
  const auto bytes = static_cast<std::int64_t>(own.size());
  const TensorArg text{.in = own.data(), .dtype = DType::kUint8, .shape = {&bytes, 1}};
  XOE_ASSIGN(
      const auto sent,
      submit({.name = name, .op = {.kind = OpKind::kBroadcastBytes, .needs_all_ranks = true}, .tensors = {&text, 1}},
             Use::kWaited));
  XOE_TRY(wait(*sent, std::nullopt));
  const Output& path = sent->outcome.outputs[0];
  return std::string(static_cast<const char*>(path.data), static_cast<std::size_t>(path.shape[0]));
}

Status Runtime::start_timeline(const std::string& own_path) {
  XOE_ASSIGN(const std::string path, path_of_rank_0(own_path));
  XOE_ASSIGN(bool goes_on, timeline_goes_on(path));
  const bool first = topology_.local_rank == 0;
  // The host was there before, with other processes.
  if (first && WorldHistory::of_process().may_follow_others(path))
    goes_on = goes_on || telemetry_->trace().is_of_this_job(path);
  Status made = first && goes_on ? telemetry_->trace().start(path, false) : Status();
  if (first && (!goes_on || !made)) made = telemetry_->trace().start(path, true);
  XOE_ASSIGN(const auto met, run_internal_request(InternalKind::kMeet, "start_timeline", {}));
  if (!first) made = telemetry_->trace().start(path, false);
  if (made) WorldHistory::of_process().writes(path);
  return made;
}

Result<bool> Runtime::timeline_goes_on(const std::string& path) {
  const std::int64_t mine = WorldHistory::of_process().wrote_before(path) ? 1 : 0;
  constexpr std::int64_t kOne = 1;
  const TensorArg flag{.in = &mine, .dtype = DType::kInt64, .shape = {&kOne, 1}};
  XOE_ASSIGN(const auto gathered, submit({.name = internal_name("start_timeline file"),
                                          .op = {.kind = OpKind::kAllgather, .needs_all_ranks = true},
                                          .tensors = {&flag, 1}},
                                         Use::kWaited));
  XOE_TRY(wait(*gathered, std::nullopt));
  const ProcessSetRegistry::Use world(sets_, kWorldSet);
  if (world.get() == nullptr) return failure(closed_error());
  const std::vector<int>& hosts = world.get()->host_group().hosts();
  const auto* const flags = static_cast<const std::int64_t*>(gathered->outcome.outputs[0].data);
  bool goes_on = false;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    goes_on = goes_on || (hosts[rank] == hosts[static_cast<std::size_t>(topology_.rank)] && flags[rank] != 0);
  return goes_on;
}

Status Runtime::run_internal(Submission& submission) {
  if (submission.operation().op.internal == InternalKind::kMeet) return {};
  if (submission.operation().op.internal == InternalKind::kRemoveProcessSet)
    return sets_.remove(static_cast<ProcessSetId>(submission.operation().argument[0]));
  const auto form = [this](ProcessSetId id, Communicator comm, const std::vector<int>& ranks) {
    return form_set(id, std::move(comm), ranks);
  };
  XOE_ASSIGN(submission.outcome.process_set,
             sets_.add({submission.operation().argument.begin(), submission.operation().argument.end()}, form));
  return {};
}

void Runtime::all_joined(const ProcessSet& set) {
  if (set.id() != kWorldSet) return;
  const std::lock_guard lock(mutex_);
  internal_names_.clear();
}

// The cause of one set's end may end others too. The caller must not find those usable once it has been told.
void Runtime::failing(const ProcessSet& set, const Error& cause) {
  // All ranks are in the world. A set is left by its ranks only when all have agreed to, so a rank that is lost to one
  // is lost to all.
  if (cause.code() == Code::kPeerLost && set.id() != kWorldSet) sets_.world().fail(cause);
  if (set.id() == kWorldSet) tell_of_loss(sets_.world().comm().backend(), cause);
  sets_.each([](ProcessSet& other) { other.check_failures(); });
}

std::string Runtime::metrics() {
  telemetry_->metrics().queue_depth(static_cast<std::size_t>(progress_->pending().load()));
  return telemetry_->metrics().text();
}

}  // namespace xoe::engine

namespace xoe {

// --- the public API ---

bool EngineHandle::poll() {
  if (submission_->done()) return true;
  if (const auto runtime = submission_->runtime.lock()) return runtime->poll(*submission_);
  return submission_->done();
}

Status EngineHandle::wait() { return wait_for(std::chrono::nanoseconds::max()); }

namespace {

// None: further away than the clock can tell.
std::optional<engine::EngineClock::time_point> deadline_of(std::chrono::nanoseconds timeout) {
  const auto now = engine::EngineClock::now();
  if (timeout < engine::EngineClock::time_point::max() - now) return now + timeout;
  return std::nullopt;
}

}  // namespace

Status EngineHandle::wait_for(std::chrono::nanoseconds timeout) {
  if (submission_->done()) return submission_->status();
  const auto runtime = submission_->runtime.lock();
  if (runtime == nullptr) return submission_->status();
  return runtime->wait(*submission_, deadline_of(timeout));
}

Status EngineHandle::wait_in_stream(void* stream, std::chrono::nanoseconds timeout) {
  if (submission_->done()) return submission_->status();
  const auto runtime = submission_->runtime.lock();
  if (runtime == nullptr) return submission_->status();
  return runtime->wait_in_stream(*submission_, stream, deadline_of(timeout));
}

const std::vector<Output>& EngineHandle::outputs() const noexcept { return submission_->outcome.outputs; }
const std::vector<std::int64_t>& EngineHandle::received_splits() const noexcept {
  return submission_->outcome.received_splits;
}
int EngineHandle::last_joined() const noexcept { return submission_->outcome.last_joined; }

Engine::Engine(std::shared_ptr<engine::Runtime> runtime) : runtime_(std::move(runtime)) {}
Engine::~Engine() { runtime_->shut_down(); }
void Engine::close() { runtime_->shut_down(); }
Status Engine::abort(std::string_view why) { return runtime_->abort(why); }

namespace {

// Rank 0 decides for all whether there is a trace: programs give each rank a path of its own, or rank 0 alone.
Result<bool> rank_0_traces(Communicator& world, const EngineOptions& options) {
  std::uint8_t traces = options.timeline.empty() ? 0 : 1;
  XOE_TRY(world.broadcast(Tensor(&traces, 1), 0, {.name = "timeline"}));
  return traces != 0;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(Communicator world, EngineOptions options) {
  const std::string timeline = options.timeline;
  XOE_ASSIGN(const bool traces, rank_0_traces(world, options));
  XOE_ASSIGN(auto runtime, engine::Runtime::create(std::move(world), std::move(options)));
  std::unique_ptr<Engine> engine(new Engine(std::move(runtime)));
  if (traces) XOE_TRY(engine->start_timeline(timeline));
  return engine;
}

Result<EngineHandle> Engine::submit(const Request& request) {
  XOE_ASSIGN(auto submission, runtime_->submit(request, engine::Runtime::Use::kAsync));
  return EngineHandle(std::move(submission));
}

Status Engine::run(const Request& request) {
  XOE_ASSIGN(const auto submission, runtime_->submit(request, engine::Runtime::Use::kWaited));
  return runtime_->wait(*submission, std::nullopt);
}

Status Engine::takes_gpu_memory() const { return runtime_->takes_gpu_memory(); }

const Topology& Engine::topology() const noexcept { return runtime_->topology(); }

Result<SharedBuffer> Engine::shared_buffer(std::size_t bytes) { return runtime_->shared_buffer(bytes); }
Result<std::vector<SharedBuffer>> Engine::map_peers(const SharedBuffer& mine, std::string_view name) {
  return runtime_->map_peers(mine, name);
}

Result<ProcessSetId> Engine::add_process_set(std::span<const int> ranks) { return runtime_->add_process_set(ranks); }
Status Engine::remove_process_set(ProcessSetId set) { return runtime_->remove_process_set(set); }
Result<std::vector<int>> Engine::process_set_ranks(ProcessSetId set) const {
  return runtime_->process_sets().ranks(set);
}
std::vector<ProcessSetId> Engine::process_sets() const { return runtime_->process_sets().ids(); }

Result<int> Engine::process_set_rank(ProcessSetId set) const {
  XOE_ASSIGN(const auto ranks, process_set_ranks(set));
  const auto own = std::find(ranks.begin(), ranks.end(), topology().rank);
  if (own == ranks.end())
    return failure(Code::kInvalidArgument, "rank {} is not in process set {}", topology().rank, set);
  return static_cast<int>(own - ranks.begin());
}

Status Engine::start_timeline(const std::string& path) { return runtime_->start_timeline(path); }
Status Engine::stop_timeline() { return runtime_->telemetry().trace().stop(); }
void Engine::mark(std::string_view lane, std::string_view name, std::chrono::steady_clock::time_point start,
                  std::chrono::steady_clock::time_point stop) {
  runtime_->telemetry().trace().mark(lane, name, start, stop);
}

void Engine::note_step() noexcept { runtime_->telemetry().note_step(); }

std::string Engine::metrics() const { return runtime_->metrics(); }

}  // namespace xoe
