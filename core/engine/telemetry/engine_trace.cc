#include "core/engine/telemetry/engine_trace.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/backend/collective.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/machine.h"
#include "core/bootstrap/launch_env.h"
#include "core/trace/file.h"
#include "core/trace/names.h"

namespace xoe::engine {
namespace {

constexpr int kClockRounds = 32;
constexpr std::size_t kWorthWriting = 4096;  // events
// Of tensors whose spans are recorded. Without a limit, a program that does nothing but reduce small tensors writes
// half a gigabyte a second, and is half as fast.
constexpr auto kRationTime = std::chrono::milliseconds(100);
constexpr std::int64_t kRation = 2000;

// Empty: no launcher names the job.
std::string name_of_job() {
  const auto info = bootstrap::read_launch_info(Env::process());
  if (!info || info->launcher == "none" || info->job == "alone") return {};
  return fmt::format("{:016x}", hash_text(info->job));
}

std::int64_t now_ns() { return EngineClock::now().time_since_epoch().count(); }

}  // namespace

Result<ClockOffset> measure_clock(Communicator& comm, std::span<const int> hosts,
                                  const std::optional<ClockOffset>& earlier) {
  const ClockOffset own = earlier.value_or(ClockOffset());
  const std::array<std::int64_t, 3> told = {earlier ? 1 : 0, own.offset.count(), own.uncertainty.count()};
  std::vector<std::int64_t> all(told.size() * index(comm.size()));
  XOE_TRY(comm.allgather(ConstTensor(told.data(), told.size()), Tensor(all.data(), all.size()), {.name = "clock"}));
  std::size_t reference = 0;  // rank
  for (std::size_t rank = index(comm.size()); rank-- > 0;)
    if (all[told.size() * rank] == 1) reference = rank;
  const ClockOffset known{.offset = std::chrono::nanoseconds(all[told.size() * reference + 1]),
                          .uncertainty = std::chrono::nanoseconds(all[told.size() * reference + 2])};

  ClockOffset best{.offset = {}, .uncertainty = std::chrono::hours(1)};
  std::vector<std::int64_t> times(static_cast<std::size_t>(comm.size()));
  for (int round = 0; round < kClockRounds; ++round) {
    XOE_TRY(comm.barrier({.name = "clock"}));
    const std::int64_t mine = now_ns();
    XOE_TRY(comm.allgather(ConstTensor(&mine, 1), Tensor(times.data(), times.size()), {.name = "clock"}));
    const std::chrono::nanoseconds took(now_ns() - mine);
    if (took >= best.uncertainty) continue;
    best = {.offset = std::chrono::nanoseconds(times[reference] - mine), .uncertainty = took};
  }
  if (hosts[index(comm.rank())] == hosts[reference]) return known;  // one clock
  return ClockOffset{.offset = best.offset + known.offset, .uncertainty = best.uncertainty + known.uncertainty};
}

std::shared_ptr<const EngineTrace::Open> EngineTrace::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

std::string EngineTrace::path_of_host(const std::string& path) const {
  // Simulated hosts share a name.
  const std::string host = hosts_ == 1 ? host_name("host") : fmt::format("{}-{}", host_name("host"), host_);
  if (hosts_ == 1 || path.find("{host}") != std::string::npos) return trace::timeline_path(path, host);
  const auto dot = path.rfind('.');
  const bool has_ending = dot != std::string::npos && path.find('/', dot) == std::string::npos;
  return trace::timeline_path(has_ending ? path.substr(0, dot) + ".{host}" + path.substr(dot) : path + ".{host}", host);
}

Status EngineTrace::start(const std::string& path, bool create) {
  if (on()) return failure(Code::kInvalidArgument, "start_timeline: one is being written already; stop it first");
  const trace::TimelineOptions options{
      .rank = topology_.rank,
      .local_rank = topology_.local_rank,
      .host = hosts_ == 1 ? host_name("host") : fmt::format("{}-{}", host_name("host"), host_),
      .job = name_of_job(),
      .create = create};
  XOE_ASSIGN(auto opened, trace::Timeline::open(path_of_host(path), options));
  trace::Timeline& t = *opened;
  if (topology_.local_rank == 0 && clock_) XOE_TRY(t.set_clock(clock_->offset, clock_->uncertainty));
  auto open = std::make_shared<Open>(Open{.timeline = nullptr,
                                          .pack = t.lane(trace::kPackLane),
                                          .reduce = t.lane(trace::kReduceLane),
                                          .unpack = t.lane(trace::kUnpackLane),
                                          .negotiate = t.intern(trace::kNegotiate),
                                          .queue = t.intern(trace::kQueue),
                                          .batch = t.intern(trace::kBatch),
                                          .tensors = t.intern(trace::kTensors),
                                          .bytes = t.intern(trace::kBytes),
                                          .left_out = t.intern(trace::kLeftOut)});
  if (const auto mark = std::exchange(mark_, std::nullopt))
    t.record(t.lane(trace::kWorldLane), t.intern(mark->text), mark->began, mark->formed,
             {.note = mark->note.empty() ? 0 : t.intern(mark->note)});
  for (int rank = 0; rank < topology_.size; ++rank)
    open->waited_for.push_back(t.intern(trace::waited_for_text(std::array{rank})));
  open->timeline = std::move(opened);
  open->number = ++timelines_;
  left_out_.store(0, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  open_ = std::move(open);
  on_.store(true, std::memory_order_release);
  return {};
}

bool EngineTrace::is_of_this_job(const std::string& path) const {
  const std::string job = name_of_job();
  return !job.empty() && trace::job_of_trace(path_of_host(path)) == job;
}

Status EngineTrace::stop() {
  on_.store(false, std::memory_order_release);
  std::shared_ptr<const Open> last;
  {
    const std::lock_guard lock(mutex_);
    last = std::move(open_);
  }
  if (last == nullptr) return failure(Code::kInvalidArgument, "stop_timeline: none is being written");
  tell_left_out(*last, EngineClock::now());
  return last->timeline->flush();
}

EngineTrace::Recorder EngineTrace::recorder() { return {*this, on() ? open() : nullptr}; }

std::uint32_t EngineTrace::Open::name_of(Submission& submission) const {
  if (submission.progress.traced_in != number) {
    submission.progress.traced_name = timeline->intern(submission.operation().name);
    submission.progress.traced_in = number;
  }
  return submission.progress.traced_name;
}

void EngineTrace::Recorder::agreed(Submission& s, int last, std::chrono::nanoseconds waited) {
  if (open_ == nullptr) return;
  s.progress.traced_start = !trace_.spend(*open_, s.progress.agreed);
  if (s.progress.traced_start) return;
  trace::TimelineArgs args;
  if (last != trace_.topology_.rank && waited.count() > 0)
    args.note = open_->waited_for[static_cast<std::size_t>(last)];
  open_->timeline->record_span(open_->negotiate, open_->name_of(s), ++trace_.spans_, s.progress.submitted,
                               s.progress.agreed, args);
}

bool EngineTrace::spend(const Open& open, TimePoint now) {
  if (now - ration_began_ >= kRationTime) {
    tell_left_out(open, now);
    ration_began_ = now;
    ration_left_ = kRation;
  }
  if (ration_left_ == 0) {
    left_out_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  --ration_left_;
  return true;
}

void EngineTrace::tell_left_out(const Open& open, TimePoint now) {
  const std::int64_t tensors = left_out_.exchange(0, std::memory_order_relaxed);
  if (tensors > 0) open.timeline->mark(open.pack, open.left_out, now, {.first = {open.tensors, tensors}});
}

void EngineTrace::batch_done(const Batch& batch) {
  if (!on()) return;
  const auto open = this->open();
  if (open == nullptr) return;
  trace::Timeline* const t = open->timeline.get();
  const auto tensors = static_cast<std::int64_t>(batch.tensors());
  const trace::TimelineArgs args{.first = {open->batch, ++batches_},
                                 .second = {open->tensors, tensors},
                                 .third = {open->bytes, static_cast<std::int64_t>(batch.bytes)}};
  const std::uint32_t name = t->intern(batch.title);
  batch.each_submission([&](Submission& s) {
    if (s.operation().placeholder || std::exchange(s.progress.traced_start, true)) return;
    t->record_span(open->queue, open->name_of(s), ++spans_, s.progress.agreed, batch.started);
  });
  // An operation of several steps is one bar.
  const TimePoint reduced = batch.reduced > batch.started ? batch.reduced : batch.done;
  if (batch.packed > batch.started) t->record(open->pack, name, batch.started, batch.packed, args);
  // Collectives take turns on the wire, though the next may have been posted before.
  const TimePoint from = std::max(std::max(batch.packed, batch.started), reduced_until_);
  if (reduced > from) t->record(open->reduce, name, from, reduced, args);
  reduced_until_ = std::max(reduced_until_, reduced);
  // So do copies back, though a collective may be found complete while the batch before it is being copied.
  const TimePoint unpacking = std::max(reduced, unpacked_until_);
  if (batch.done > unpacking) t->record(open->unpack, name, unpacking, batch.done, args);
  unpacked_until_ = std::max(unpacked_until_, batch.done);
}

void EngineTrace::mark(std::string_view lane, std::string_view name, TimePoint start, TimePoint stop) {
  if (!on()) return;
  if (const auto open = this->open(); open != nullptr)
    open->timeline->record(open->timeline->lane(lane), open->timeline->intern(name), start, stop);
}

void EngineTrace::flush_if_full() {
  if (!on()) return;
  if (const auto open = this->open(); open != nullptr && open->timeline->pending() > kWorthWriting) flush(*open);
}

void EngineTrace::flush(const Open& open) {
  const Status written = open.timeline->flush();
  if (!written && !warned_.exchange(true))
    warn_(fmt::format("the timeline is incomplete: {}", written.error().message()));
}

EngineTrace::~EngineTrace() {
  const auto last = open();
  if (last == nullptr || ::getpid() != process_) return;
  tell_left_out(*last, EngineClock::now());
  flush(*last);
}

}  // namespace xoe::engine
