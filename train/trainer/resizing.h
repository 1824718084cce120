// What a run and its caller tell each other when the number of ranks changes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace xoe::train {

struct RankState;

// For a job whose number of ranks changes while it runs: train() returns when it shall, and is called again in the next
// world.
struct Resizing {
  // Of this rank, as the launcher wants it. Ranks see a change one after the other, and join the next world beside the
  // training in this one, which they leave at a step when all have joined, or one leaves at once.
  enum class Next : std::uint8_t {
    kStays,
    kJoins,   // the next world, beside the training
    kJoined,  // the same, and has
    kAtOnce,  // is not in the next world, or cannot join it
  };
  std::function<Next()> next;
  std::function<void()> gone_over;  // called once all ranks of a world have come to it, with the state
  std::size_t shared_bytes = 0;     // that train() will share with the ranks of the host
  bool survives = false;            // the others go on in another world where a rank is lost
  int version = 0;                  // of the world that train() is called in; 0: the first
  bool goes_on = false;             // this process has had a state of the training in an earlier world
  // What the ranks still had to do when they left the last world: the next one does it first.
  struct {
    bool evaluation = false, checkpoint = false;
  } postponed = {};
  // What the next call of train() goes on with in this process; null: it begins with nothing.
  std::shared_ptr<RankState> state = {};
  std::string loss = {};  // of which rank, where train() has returned because of it
  std::int64_t step = 0;  // that the state is of: where ranks have different ones, the latest counts
  std::chrono::steady_clock::time_point left_at = {};  // when that world ended
};

}  // namespace xoe::train
