// Trains on while ranks are lost, leave and join, under `xoe run --min-np` and all that changes the number of ranks:
// for C++ what hvd.elastic.run is for Python.
//
//   std::vector<float> weights(1000);
//   std::int64_t step = 0;
//   xoe::elastic::Values state;
//   state.add("weights", xoe::Tensor(weights.data(), weights.size()));
//   state.add("step", step);
//   auto outcome = xoe::elastic::run(state, [&](xoe::elastic::World& world) -> xoe::Result<xoe::elastic::Next> {
//     if (auto trained = train(weights, step, world.comm()); !trained) return xoe::failure(trained.error());
//     return ++step < 10'000 ? xoe::elastic::Next::kCommit : xoe::elastic::Next::kDone;
//   });
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "xoe/communicator.h"
#include "xoe/engine.h"
#include "xoe/status.h"
#include "xoe/tensor.h"

namespace xoe::elastic {

// The state of a training: a program restores it when a rank is lost, and ranks that join receive it. One thread at a
// time.
class State {
 public:
  virtual ~State() = default;
  // Keeps a copy in memory. Talks to no other rank. An error ends the run.
  virtual Status save() = 0;
  // Makes all as it was at the last save(), which has been called. An error ends the run.
  virtual Status restore() = 0;
  // Copies the values of rank `source` to all ranks. Collective over `comm`. If it fails with `peer_lost`, run() calls
  // restore(), where there was a save(), and sync() again in the next world.
  virtual Status sync(Communicator& comm, int source) = 0;
};

template <class T>
concept PlainBytes = std::is_trivially_copyable_v<T>;

// The program's own variables, in host memory. They stay where they are while this lives, which owns only the copies.
class Values : public State {
 public:
  // An array whose size is the same on all ranks.
  void add(std::string name, Tensor tensor);
  // A number, or another value of bytes.
  template <PlainBytes T>
  void add(std::string name, T& value) {
    add_fixed(std::move(name), std::as_writable_bytes(std::span(&value, 1)));
  }
  // A value whose size may change, such as a position in the data. The other ranks take over the source's size.
  void add(std::string name, std::string& text);
  template <PlainBytes T>
  void add(std::string name, std::vector<T>& values) {
    add_growing({std::move(name), [&values] { return std::as_writable_bytes(std::span(values)); },
                 [&values](std::size_t bytes) { values.resize(bytes / sizeof(T)); }});
  }

  Status save() override;
  Status restore() override;
  // `invalid_argument` on all ranks: a rank has other names, sizes or another order than `source`; nothing has changed.
  Status sync(Communicator& comm, int source) override;

 private:
  struct Entry {
    std::string name;
    std::function<std::span<std::byte>()> bytes;
    std::function<void(std::size_t)> resize = {};  // unset: the size is fixed
    std::vector<std::byte> copy = {};
  };
  void add_fixed(std::string name, std::span<std::byte> bytes);
  void add_growing(Entry entry);
  std::string describe() const;

  std::vector<Entry> entries_;
};

// The launcher's request to this rank.
enum class Change : std::uint8_t {
  kStay,
  kReForm,  // there is another version of the world, with this rank: run() joins it at the next commit
  kLeave,   // ... without this rank, whose host is to be taken away, say: run() ends at the next commit
};

// The ranks that train together until one is lost, leaves or joins. Made by run(), and valid until it ends this world.
class World {
 public:
  struct Parts;  // core/elastic/world.h
  explicit World(std::unique_ptr<Parts> parts);
  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  ~World();

  int rank() const noexcept { return topology().rank; }
  int size() const noexcept { return topology().size; }
  const Topology& topology() const noexcept;
  int version() const noexcept;  // rises from world to world; 0: the first
  // One thread at a time, as a Communicator is; beside the engine.
  Communicator& comm() noexcept;
  // An engine of these ranks, made by the first call, which is collective. Errors as of Engine::create().
  Result<Engine*> engine();
  // How a rank learns that it or others are to leave, or that others are to join, before the commit at which it
  // happens. Two reads of memory; any thread. Ranks may see it at different steps.
  Change change() const noexcept;
  // Tells the launcher that all ranks have the state. run() calls it.
  void tell_formed();

 private:
  std::unique_ptr<Parts> parts_;
};

// A step returns what follows it; all ranks return the same.
enum class Next : std::uint8_t {
  kStep,    // another step; if a rank is lost, this one is undone, too
  kCommit,  // the state is saved. The number of ranks changes here only. Then another step
  kDone,    // the state is saved, and the run is over
};
using Step = std::function<Result<Next>(World&)>;

struct RunOptions {
  InitOptions init = {};
  std::optional<EngineOptions> engine = {};  // unset: those of read_engine_options()
  // A world has formed, the first one too, and the state is there: for what depends on the ranks, as the shard of the
  // data, a learning rate, a DistributedOptimizer. Errors as of a step.
  std::function<Status(World&)> begins = {};
  // A world is over, whether it broke or not: the place to drop what refers to its communicator or engine.
  std::function<void(World&)> ends = {};
  // This rank is to leave: before run() returns, in the last world that it is in, to hand over what only it has. May
  // talk to its peers.
  std::function<void(World&)> leaves = {};
  // Receives lines about what happens; unset: standard error.
  std::function<void(std::string_view)> log = {};
};

struct Outcome {
  bool left = false;  // the launcher had this rank leave: end the process well, without results
  int worlds = 0;     // that this rank was in
  int losses = 0;     // worlds that broke
};

// Joins the world that the launcher describes, and calls `step` again and again until it says kDone, or the rank is to
// leave. First all ranks get the state of rank 0.
//
// When a rank is lost, which ends operations with `peer_lost` or `timeout`, or a step returns such an error, the others
// restore what they committed last, join the next version of the world in this process, and go on from the latest
// commit that any of them has. What only the lost rank knew since then is lost; so is at most what was done since the
// last commit. Ranks that join, and those that were behind, get the state from one of the others. The launcher says
// whether a world follows (`xoe run --min-np`, or --restarts); without it, and where the world breaks again at once
// without a rank that is lost, the error is returned.
//
// When ranks come or leave as planned, all join the next version after a commit, and nothing is undone.
//
// Other errors of `step`, of `begins` and of the state are returned at once. Not collective in itself: other ranks lose
// this one then. One run at a time in a process; the calls come from the thread that runs.
Result<Outcome> run(State& state, const Step& step, const RunOptions& options = {});

}  // namespace xoe::elastic
