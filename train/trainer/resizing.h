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
  // What the launcher wants of this rank. Any rank may be the first to see it.
  enum class Next : std::uint8_t {
    kStays,
    kGoesOver,  // another world is wanted, and this rank is in it
    kLeaves,    // the same, and it is not
  };
  std::function<Next()> next;
  std::function<void()> gone_over;  // called once all ranks of a world have the state
  // Whether the others go on in another world where a rank is lost now.
  std::function<bool()> survives;
  int version = 0;       // of the world that train() is called in; 0: the first
  bool goes_on = false;  // this process has had a state of the training in an earlier world
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
