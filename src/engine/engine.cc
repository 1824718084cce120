#include "xoe/engine.h"

#include <algorithm>

#include "base/error.h"
#include "engine/core.h"

namespace xoe {

namespace {

// As far in the future as the clock can tell, at most.
std::optional<engine::EngineClock::time_point> moment_after(std::chrono::nanoseconds patience) {
  const auto now = engine::EngineClock::now();
  if (patience >= engine::EngineClock::time_point::max() - now) return std::nullopt;
  return now + patience;
}

}  // namespace

bool EngineHandle::poll() {
  if (submission_->done()) return true;
  if (const auto core = submission_->core.lock()) return core->poll(*submission_);
  return submission_->done();
}

Status EngineHandle::wait() {
  if (!submission_->done())
    if (const auto core = submission_->core.lock()) return core->wait(*submission_, std::nullopt);
  return submission_->status();
}

Status EngineHandle::wait_for(std::chrono::nanoseconds patience) {
  if (!submission_->done())
    if (const auto core = submission_->core.lock()) return core->wait(*submission_, moment_after(patience));
  return submission_->status();
}

const std::vector<Output>& EngineHandle::outputs() const noexcept { return submission_->outputs; }
const std::vector<std::int64_t>& EngineHandle::received_splits() const noexcept { return submission_->received_splits; }
int EngineHandle::last_joined() const noexcept { return submission_->last_joined; }

Engine::Engine(std::shared_ptr<engine::Core> core) : core_(std::move(core)) {}
Engine::~Engine() { core_->shut_down(); }

Result<std::unique_ptr<Engine>> Engine::create(Communicator world, EngineOptions options) {
  const std::string timeline = options.timeline;
  XOE_ASSIGN(auto core, engine::Core::create(std::move(world), std::move(options)));
  std::unique_ptr<Engine> engine(new Engine(std::move(core)));
  if (!timeline.empty()) XOE_TRY(engine->start_timeline(timeline));
  return engine;
}

Result<EngineHandle> Engine::submit(const Request& request) {
  XOE_ASSIGN(auto submission, core_->submit(request, engine::Core::Use::kAsync));
  return EngineHandle(std::move(submission));
}

Status Engine::run(const Request& request) {
  XOE_ASSIGN(const auto submission, core_->submit(request, engine::Core::Use::kWaited));
  return core_->wait(*submission, std::nullopt);
}

Status Engine::takes_gpu_memory() const { return core_->takes_gpu_memory(); }

const Topology& Engine::topology() const noexcept { return core_->topology(); }

Result<SharedBuffer> Engine::shared_buffer(std::size_t bytes) { return core_->shared_buffer(bytes); }

Result<ProcessSetId> Engine::add_process_set(std::span<const int> ranks) { return core_->add_process_set(ranks); }
Status Engine::remove_process_set(ProcessSetId set) { return core_->remove_process_set(set); }
Result<std::vector<int>> Engine::process_set_ranks(ProcessSetId set) const { return core_->process_set_ranks(set); }
std::vector<ProcessSetId> Engine::process_sets() const { return core_->process_sets(); }

Status Engine::start_timeline(const std::string& path) { return core_->start_timeline(path); }
Status Engine::stop_timeline() { return core_->trace().stop(); }
void Engine::mark(std::string_view lane, std::string_view name, std::chrono::steady_clock::time_point start,
                  std::chrono::steady_clock::time_point stop) {
  core_->trace().mark(lane, name, start, stop);
}

std::string Engine::metrics() const { return core_->metrics(); }

Result<int> Engine::process_set_rank(ProcessSetId set) const {
  XOE_ASSIGN(const auto ranks, core_->process_set_ranks(set));
  const auto place = std::find(ranks.begin(), ranks.end(), topology().rank);
  if (place == ranks.end())
    return failure(Code::kInvalidArgument, "rank {} is not in process set {}", topology().rank, set);
  return static_cast<int>(place - ranks.begin());
}

}  // namespace xoe
