// What all iterators of stages share: functions that throw give errors, errors stay, and each tells what it did.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "xoe/data/detail/meter.h"
#include "xoe/data/detail/stage_list.h"
#include "xoe/data/stage.h"

namespace xoe::data::detail {

template <class T>
using IteratorPtr = std::unique_ptr<Iterator<T>>;
template <class T>
using Next = Result<std::optional<T>>;

// f(), a Result, with what it throws as an error too: an exception that leaves a thread would end the process.
template <class F>
auto caught(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return failure(Code::kResourceExhausted, "the function threw: out of memory");
  } catch (const std::exception& error) {
    return failure(Code::kInternal, std::string("the function threw: ") + error.what());
  } catch (...) {
    return failure(Code::kInternal, "the function threw: no std::exception");
  }
}

// f(element) of a user, caught, with errors that name the element.
template <class U, class F, class T>
Result<U> guarded(const std::string& stage, std::int64_t epoch, std::int64_t position, const F& f, T& element) {
  Result<U> made = caught([&]() -> Result<U> { return f(element); });
  if (made) return made;
  return failure(made.error().code(), stage + ": element " + std::to_string(position) + " of epoch " +
                                          std::to_string(epoch) + ": " + made.error().message());
}

// Keeps the laws that nothing throws and that an error stays until a restore succeeds, whatever the upstream does.
// `Base` is what users see of the iterator.
template <class T, class Base = Iterator<T>>
class IteratorBase : public Base {
 public:
  Next<T> next() final {
    return meter_.call([this]() -> Next<T> {
      if (failed_) return failure(*failed_);
      return sticky([this] { return counted(); });
    });
  }
  Result<bool> skip(std::int64_t count) final {
    return meter_.call([&]() -> Result<bool> {
      if (failed_) return failure(*failed_);
      return sticky([&] { return pass_over(count); });
    });
  }
  Status restore(State state) final {
    failed_.reset();
    meter_.reset();
    return sticky([&] { return resume(std::move(state)); });
  }
  std::vector<StageReport> stages() const final {
    std::vector<StageReport> all = inputs();
    StageReport mine;
    meter_.report(mine);
    if constexpr (std::is_arithmetic_v<T>) mine.bytes = mine.elements * static_cast<std::int64_t>(sizeof(T));
    describe(mine);
    feed_stage(all, std::move(mine));
    return all;
  }

 protected:
  // The stages that feed this one.
  virtual std::vector<StageReport> inputs() const { return {}; }
  // Gives the stage its name, and what the meter of its next() cannot tell: threads, queues.
  virtual void describe(StageReport& mine) const = 0;

  // As next(), skip() and restore(), of an iterator without an error.
  virtual Next<T> produce() = 0;
  virtual Result<bool> pass_over(std::int64_t count) {
    for (; count > 0; --count) {
      const Next<T> element = produce();
      if (!element) return failure(element.error());
      if (!*element) return false;
    }
    return true;
  }
  virtual Status resume(State state) = 0;

 private:
  static constexpr bool kBytesVary = ElementBytes<T>::kKnown && !std::is_arithmetic_v<T>;

  Next<T> counted() {
    Next<T> made = produce();
    if (made && *made) {
      meter_.count();
      if constexpr (kBytesVary) meter_.count_bytes(ElementBytes<T>::of(**made));
    }
    return made;
  }
  // With one return, so that what f() gives is made in its place: moving it would cost more than the stage does.
  template <class F>
  auto sticky(F&& f) -> decltype(f()) {
    auto made = caught(std::forward<F>(f));
    if (!made) failed_ = made.error();
    return made;
  }

  std::optional<Error> failed_;
  Meter meter_;
};

// A walk whose position is one number: how many elements were given.
template <class T>
class Positioned : public IteratorBase<T> {
 public:
  explicit Positioned(std::string name) : name_(std::move(name)) {}

  State save() const final {
    State state;
    state.push(name_ + ".position", position_);
    return state;
  }

 protected:
  // Back to the beginning.
  virtual Status rewind() = 0;
  void describe(StageReport& mine) const override { mine.name = name_; }
  Status resume(State state) final {
    const auto position = state.pop(name_ + ".position");
    if (!position) return failure(position.error());
    if (auto rewound = rewind(); !rewound) return rewound;
    position_ = 0;
    const auto there = *position < 0 ? Result<bool>(false) : this->pass_over(*position);
    if (!there) return failure(there.error());
    if (*there) return {};
    return failure(Code::kInvalidArgument,
                   "saved position: element " + std::to_string(*position) + " is past the end of " + name_);
  }
  // pass_over() where `total` is known.
  bool jump(std::int64_t count, std::int64_t total) {
    const std::int64_t left = total - position_;
    position_ += std::min(count, left);
    return count <= left;
  }

  std::int64_t position_ = 0;

 private:
  std::string name_;
};

}  // namespace xoe::data::detail
