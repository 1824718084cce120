// What every part of an input pipeline is: a recipe (Stage) and a walk through it (Iterator) whose position can be
// saved.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "xoe/data/report.h"
#include "xoe/status.h"

namespace xoe::data {

// A saved position: a short list of named numbers, pushed by each stage after those of the stage before it. Holds
// indices, never elements, so it stays small whatever the buffers hold: a few numbers for each stage; interleave() a
// few for each of its slots.
class State {
 public:
  void push(std::string name, std::int64_t value) { values_.emplace_back(std::move(name), value); }
  // Takes off the number pushed last. `invalid_argument` when it has another name: the state is of another pipeline.
  Result<std::int64_t> pop(std::string_view name);
  bool empty() const noexcept { return values_.empty(); }

  // Another position as one: what stages with several upstreams push. pop_group() takes off what push_group() put
  // there under that name.
  void push_group(std::string name, const State& group);
  Result<State> pop_group(std::string_view name);

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

  // Passes over the next `count` elements, without making them where the stage can do that; false when the epoch ends
  // before.
  virtual Result<bool> skip(std::int64_t count) {
    for (; count > 0; --count) {
      auto element = next();
      if (!element) return failure(element.error());
      if (!*element) return false;
    }
    return true;
  }

  // The position after the element that next() gave last.
  virtual State save() const = 0;

  // Continues where save() was called on an iterator of the same recipe, with the same elements to the bit. Works at
  // any time, on a fresh or a used iterator. After an error the position is undefined until a restore succeeds.
  virtual Status restore(State state) = 0;

  // What report() is made of: those that feed this stage, then itself. Those that tell nothing give an empty list.
  virtual std::vector<StageReport> stages() const { return {}; }
};

// Bytes that an element holds, for reports and memory budgets. Known for numbers, strings, records and what is made of
// them; specialise it for others.
template <class T>
struct ElementBytes {
  static constexpr bool kKnown = std::is_arithmetic_v<T>;
  static std::int64_t of(const T&) noexcept { return kKnown ? static_cast<std::int64_t>(sizeof(T)) : 0; }
};
template <>
struct ElementBytes<std::string> {
  static constexpr bool kKnown = true;
  static std::int64_t of(const std::string& text) noexcept { return static_cast<std::int64_t>(text.size()); }
};
template <class T>
struct ElementBytes<std::vector<T>> {
  static constexpr bool kKnown = ElementBytes<T>::kKnown;
  static std::int64_t of(const std::vector<T>& elements) noexcept {
    if constexpr (std::is_arithmetic_v<T>) return static_cast<std::int64_t>(elements.size() * sizeof(T));
    std::int64_t bytes = 0;
    if constexpr (kKnown && !std::is_arithmetic_v<T>)
      for (const T& element : elements) bytes += ElementBytes<T>::of(element);
    return bytes;
  }
};
template <class T, class U>
struct ElementBytes<std::pair<T, U>> {
  static constexpr bool kKnown = ElementBytes<T>::kKnown && ElementBytes<U>::kKnown;
  static std::int64_t of(const std::pair<T, U>& pair) noexcept {
    return kKnown ? ElementBytes<T>::of(pair.first) + ElementBytes<U>::of(pair.second) : 0;
  }
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
