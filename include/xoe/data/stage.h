// What every part of an input pipeline is: a recipe (Stage) and a walk through it (Iterator) whose position can be
// saved.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xoe/status.h"

namespace xoe::data {

// A saved position: a short list of named numbers, pushed by each stage after those of the stage before it. Holds
// indices, never elements, so it stays below a kilobyte whatever the buffers hold.
class State {
 public:
  void push(std::string name, std::int64_t value) { values_.emplace_back(std::move(name), value); }
  // Takes off the number pushed last. `invalid_argument` when it has another name: the state is of another pipeline.
  Result<std::int64_t> pop(std::string_view name);
  bool empty() const noexcept { return values_.empty(); }

  // "records.position=512 repeat.epoch=3", for checkpoints.
  std::string to_text() const;
  static Result<State> from_text(std::string_view text);

  friend bool operator==(const State&, const State&) = default;

 private:
  std::vector<std::pair<std::string, std::int64_t>> values_;
};

// One walk through the elements of a stage. Thread safety: one thread at a time.
template <class T>
class Iterator {
 public:
  virtual ~Iterator() = default;
  Iterator() = default;
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;

  // The next element, or nullopt at the end. After an error every later call returns that same error.
  virtual Result<std::optional<T>> next() = 0;

  // The position after the element that next() gave last.
  virtual State save() const = 0;

  // Continues where save() was called on an iterator of the same recipe, with the same elements to the bit. Works at
  // any time, on a fresh or a used iterator. After an error the position is undefined until a restore succeeds.
  virtual Status restore(State state) = 0;
};

// An immutable recipe for a sequence of elements. Elements and their order depend on the recipe and the epoch alone:
// never on threads, timing or earlier epochs. Thread safety: any thread at any time.
template <class T>
class Stage {
 public:
  using Element = T;

  virtual ~Stage() = default;
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // A walk through one epoch (or from that epoch on, below repeat()). It keeps what it needs of the stage alive.
  virtual Result<std::unique_ptr<Iterator<T>>> iterate(std::int64_t epoch) const = 0;

  // Elements per epoch; nullopt when unknown or endless.
  virtual std::optional<std::int64_t> size() const = 0;
};

template <class T>
using StagePtr = std::shared_ptr<const Stage<T>>;

}  // namespace xoe::data
