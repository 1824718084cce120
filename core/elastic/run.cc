#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/world_changes.h"
#include "core/comm/init.h"
#include "core/elastic/world.h"

namespace xoe::elastic {
namespace {

constexpr std::chrono::seconds kNewsTimeout(10);

enum class End : std::uint8_t { kDone, kLeft, kNextWorld };

bool is_loss(const Error& error) { return error.code() == Code::kPeerLost || error.code() == Code::kTimeout; }

class Run {
 public:
  Run(State& state, const Step& step, const RunOptions& options) : state_(state), step_(step), options_(options) {}

  Result<Outcome> run() {
    while (true) {
      XOE_ASSIGN(World world, join_world());
      ++outcome_.worlds;
      auto end = in_world(world);
      if (end && *end == End::kLeft && options_.leaves) options_.leaves(world);
      if (options_.ends) options_.ends(world);
      if (!end) {
        XOE_TRY(survive(world, end.error()));
        continue;
      }
      if (*end == End::kNextWorld) continue;
      outcome_.left = *end == End::kLeft;
      if (outcome_.left) log(fmt::format("rank {} leaves: the next world is without it", world.rank()));
      return outcome_;
    }
  }

 private:
  Result<World> join_world() {
    std::vector<std::string> warnings;
    XOE_ASSIGN(EngineOptions engine,
               options_.engine ? Result<EngineOptions>(*options_.engine) : read_engine_options(warnings));
    for (const std::string& line : warnings)
      if (outcome_.worlds == 0) log(line);
    // The launcher hears that the world has formed when all have the state: until then it can do without newcomers.
    auto joined = join(
        Env::process(), options_.init, [this](const std::string& line) { log(line); }, {}, TellsFormed::kLater);
    if (!joined && loss_.empty()) return failure(joined.error());
    if (!joined)
      return failure(joined.error().code(), "{}; the world before ended with: {}", joined.error().message(), loss_);
    return World(std::make_unique<World::Parts>(
        World::Parts{.joined = std::move(*joined), .engine_options = std::move(engine)}));
  }

  Result<End> in_world(World& world) {
    XOE_TRY(share_state(world));
    world.tell_formed();
    if (options_.begins) XOE_TRY(options_.begins(world));
    while (true) {
      ++undone_steps_;
      XOE_ASSIGN(const Next next, step_(world));
      if (next == Next::kStep) continue;
      XOE_TRY(save());
      ++commits_;
      if (next == Next::kDone) {
        // So that no rank ends, and is taken for lost, while others are in the last step. This one is done anyway.
        (void)world.comm().barrier({.name = "end of the elastic run"});
        return End::kDone;
      }
      XOE_ASSIGN(const bool changes, world_changes_now(world));
      if (changes) return world.change() == Change::kLeave ? End::kLeft : End::kNextWorld;
    }
  }

  // The ranks go on from the latest commit that one of them has.
  Status share_state(World& world) {
    Communicator& comm = world.comm();
    std::vector<std::int64_t> all(static_cast<std::size_t>(comm.size()));
    XOE_TRY(
        comm.allgather(ConstTensor(&commits_, 1), Tensor(all.data(), all.size()), {.name = "commits of the state"}));
    const auto latest = std::ranges::max_element(all);
    if (*latest >= 0 && std::ranges::min(all) == *latest) return {};
    if (*latest < 0 && world.version() > 0 && comm.rank() == 0)
      log("no rank has a state of the training: it begins with what rank 0 has");
    if (!saved_) XOE_TRY(save());  // what a loss amid the next line is undone to
    XOE_TRY(state_.sync(comm, static_cast<int>(latest - all.begin())));
    XOE_TRY(save());
    commits_ = std::max<std::int64_t>(*latest, 0);
    return {};
  }

  Status save() {
    XOE_TRY(state_.save());
    saved_ = true;
    undone_steps_ = 0;
    return {};
  }

  // Any rank may be the first to see it; all learn of it here.
  Result<bool> world_changes_now(World& world) {
    std::uint8_t changes = world.change() == Change::kStay ? 0 : 1;
    XOE_TRY(world.comm().allreduce(Tensor(&changes, 1), ReduceOp::kMax, {.name = "change of the world"}));
    // Each host has a page of its own, which tells its ranks soon after those of others: stay, or leave.
    const auto last = std::chrono::steady_clock::now() + kNewsTimeout;
    while (changes != 0 && world.change() == Change::kStay && std::chrono::steady_clock::now() < last)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return changes != 0;
  }

  Status survive(const World& world, const Error& error) {
    // The lost rank lives, and the launcher knows of no loss: the same would happen again and again.
    const bool again = lost_in_ == std::pair(world.version(), commits_);
    if (!is_loss(error) || again) return failure(error);
    lost_in_ = {world.version(), commits_};
    loss_ = error.message();
    ++outcome_.losses;
    log(fmt::format("re-forming the world: {}", loss_));
    world_changes().steps_redone.fetch_add(static_cast<std::uint64_t>(undone_steps_), std::memory_order_relaxed);
    undone_steps_ = 0;
    return saved_ ? state_.restore() : Status();
  }

  void log(std::string_view line) const {
    if (options_.log) return options_.log(line);
    std::fprintf(stderr, "xoe: %.*s\n", static_cast<int>(line.size()), line.data());
  }

  State& state_;
  const Step& step_;
  const RunOptions& options_;
  Outcome outcome_ = {};
  std::int64_t commits_ = -1;  // that the saved state has seen, of the training; -1: this rank has no state of it
  bool saved_ = false;
  std::int64_t undone_steps_ = 0;  // since the last commit
  std::string loss_ = {};          // the last one
  std::pair<int, std::int64_t> lost_in_ = {-1, -1};
};

}  // namespace

Result<Outcome> run(State& state, const Step& step, const RunOptions& options) {
  return Run(state, step, options).run();
}

}  // namespace xoe::elastic
