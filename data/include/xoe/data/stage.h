// The two parts of an input pipeline: a recipe (Stage), and a walk through its elements (Iterator) whose position can
// be saved.
//
// Users see Stage<T> and Iterator<T>. Below them AnyStage and AnyIterator do not know the element's type: Xoe's own
// stages are written against those, compiled once, and hand elements on in raw memory (Slot).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "xoe/status.h"

namespace xoe::data {

// A saved position: a short list of named numbers; each stage pushes its own after those of the stage before it. Holds
// indices, never elements, so it stays small whatever the buffers hold: a few numbers for each stage; interleave() a
// few for each of its slots.
class State {
 public:
  void push(std::string name, std::int64_t value) { values_.emplace_back(std::move(name), value); }
  // Takes off the number pushed last. `invalid_argument` when it has another name: the state is of another pipeline.
  Result<std::int64_t> pop(std::string_view name);
  bool empty() const noexcept { return values_.empty(); }
  // Replaces a number. `invalid_argument` if there is none of that name.
  Status set(std::string_view name, std::int64_t value);
  std::optional<std::int64_t> find(std::string_view name) const;

  // Another position as one: stages with several upstreams push one for each. pop_group() takes off what push_group()
  // put there under that name.
  void push_group(std::string name, const State& group);
  Result<State> pop_group(std::string_view name);

  // "records.position=512 repeat.epoch=3", for checkpoints.
  std::string to_text() const;
  static Result<State> from_text(std::string_view text);

  friend bool operator==(const State&, const State&) = default;

 private:
  std::vector<std::pair<std::string, std::int64_t>> values_;
};

// Bytes that an element holds, for reports and memory budgets. Known for numbers, strings, records, and pairs, vectors
// and batches of those; specialise it for other types.
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

// One stage, as its iterator saw it. Seconds are wall time, those of threads added up, since the start or the last
// restore(); a stage whose elements cost little is timed at random calls (0.2 % of the time goes to that), so
// its seconds are an estimate.
struct StageReport {
  std::string name;           // "shuffle", "map", ...
  int feeds = -1;             // place in the list of the stage that takes from it; -1: the consumer does
  std::int64_t elements = 0;  // that it gave
  std::int64_t bytes = 0;     // of those; 0 where their size is not known (ElementBytes)
  double seconds = 0;         // at its own work
  double waited = 0;          // for its input: in what feeds it, whether that worked or waited itself
  double idle = 0;            // of its threads, because the consumer had not taken what was there
  double held = 0;            // that its next() took its caller
  double age = 0;             // since it was first asked

  // Of stages that work ahead; 0 in others, which work in the thread that asks them.
  int threads = 0;  // now
  int most_threads = 0;
  int pullers = 0;             // of those, that may take from its input at the same time
  double ready = 0;            // elements (of interleave: of the stages open) in the queue when asked, on average
  std::size_t depth = 0;       // its limit now; of map it includes elements in work
  std::size_t most_depth = 0;  // and the largest
  std::string last_tuning;     // empty when nothing was tuned
};

// How the core moves elements whose type it does not know.
struct ElementType {
  std::size_t size;
  std::size_t align;
  void (*move)(void* to, void* from) = nullptr;  // constructs *to and destroys *from; null: copying the bytes does it
  void (*destroy)(void* element) = nullptr;      // null: nothing to do
  std::int64_t (*bytes)(const void* element) = nullptr;  // ElementBytes; null: `fixed_bytes` for all
  std::int64_t fixed_bytes = 0;

  template <class T>
  static constexpr ElementType of() {
    ElementType type{.size = sizeof(T), .align = alignof(T)};
    if constexpr (std::is_arithmetic_v<T>)
      type.fixed_bytes = sizeof(T);
    else if constexpr (ElementBytes<T>::kKnown)
      type.bytes = [](const void* element) { return ElementBytes<T>::of(*static_cast<const T*>(element)); };
    if constexpr (!std::is_trivially_copyable_v<T>)
      type.move = [](void* to, void* from) {
        ::new (to) T(std::move(*static_cast<T*>(from)));
        static_cast<T*>(from)->~T();
      };
    if constexpr (!std::is_trivially_destructible_v<T>)
      type.destroy = [](void* element) { static_cast<T*>(element)->~T(); };
    return type;
  }
};
template <class T>
inline constexpr ElementType kElementType = ElementType::of<T>();

// Memory for one element, which is not there yet. REQUIRES: room for the type, suitably aligned.
struct Slot {
  void* at;
  std::int64_t bytes = 0;           // of the element, once it is there
  std::optional<Error> error = {};  // in place of one

  template <class T>
  void put(T&& element) {
    using Element = std::remove_cvref_t<T>;
    bytes = ElementBytes<Element>::of(*::new (at) Element(std::forward<T>(element)));
  }
};

enum class Next : std::uint8_t { kElement, kEnd, kError };

// What all iterators have, whatever their elements are. Thread safety: one thread at a time, stages() any thread.
class AnyIterator {
 public:
  virtual ~AnyIterator() = default;
  AnyIterator() = default;
  AnyIterator(const AnyIterator&) = delete;
  AnyIterator& operator=(const AnyIterator&) = delete;

  // As Iterator<T>::next(), which is what users call, with the element or the error in `slot`.
  virtual Next next_into(Slot& slot) = 0;
  // The same; false at the end.
  Result<bool> pull(Slot& slot) {
    const Next next = next_into(slot);
    if (next == Next::kError) [[unlikely]]
      return failure(std::move(*slot.error));
    return next == Next::kElement;
  }

  // Passes over the next `count` elements, without making them where the stage can do that; false when the epoch ends
  // before.
  virtual Result<bool> skip(std::int64_t count) = 0;

  // The position after the element that next() gave last.
  virtual State save() const = 0;

  // Continues where save() was called on an iterator of the same recipe, with the same elements to the bit. Works at
  // any time, on a fresh or a used iterator. After an error the position is undefined until a restore succeeds.
  virtual Status restore(State state) = 0;

  // For report(): the stages that feed this one, then itself. Empty where an iterator does not report.
  virtual std::vector<StageReport> stages() const;
};

using AnyIteratorPtr = std::unique_ptr<AnyIterator>;

// One walk through the elements of a stage. To write one, implement next(), save() and restore().
template <class T>
class Iterator : public AnyIterator {
 public:
  // The next element, or nullopt at the end. After an error every later call returns that same error.
  virtual Result<std::optional<T>> next() = 0;

  Result<bool> skip(std::int64_t count) override {
    for (; count > 0; --count) {
      auto element = next();
      if (!element) return failure(element.error());
      if (!*element) return false;
    }
    return true;
  }
  Next next_into(Slot& slot) override {
    auto element = next();
    if (!element) slot.error = std::move(element.error());
    if (!element || !*element) return element ? Next::kEnd : Next::kError;
    slot.put(std::move(**element));
    return Next::kElement;
  }
};

// What all stages have, whatever their elements are.
class AnyStage {
 public:
  virtual ~AnyStage() = default;
  AnyStage() = default;
  AnyStage(const AnyStage&) = delete;
  AnyStage& operator=(const AnyStage&) = delete;

  // Elements per epoch; nullopt when unknown or endless.
  virtual std::optional<std::int64_t> size() const = 0;

  // As Stage<T>::iterate(), which is what users call.
  virtual Result<AnyIteratorPtr> iterate_any(std::int64_t epoch) const = 0;
  virtual const ElementType& element_type() const = 0;
};
using AnyStagePtr = std::shared_ptr<const AnyStage>;

// An immutable recipe for a sequence of elements. Elements and their order depend on the recipe and the epoch alone:
// never on threads, timing or earlier epochs. Thread safety: any thread at any time.
template <class T>
class Stage : public AnyStage {
 public:
  using Element = T;

  // A walk through one epoch (or from that epoch on, below repeat()). It keeps what it needs of the stage alive.
  virtual Result<std::unique_ptr<Iterator<T>>> iterate(std::int64_t epoch) const = 0;

  Result<AnyIteratorPtr> iterate_any(std::int64_t epoch) const override {
    auto iterator = iterate(epoch);
    if (!iterator) return failure(iterator.error());
    return AnyIteratorPtr(std::move(*iterator));
  }
  const ElementType& element_type() const final { return kElementType<T>; }
};

template <class T>
using StagePtr = std::shared_ptr<const Stage<T>>;

}  // namespace xoe::data
