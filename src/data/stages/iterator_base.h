// What the iterators of the core share: errors that stay, exceptions that become errors, reports.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/stages/element.h"
#include "data/tune/meter.h"
#include "data/tune/stage_list.h"

namespace xoe::data {

// f(), a Result, with what it throws as an error too: an exception that leaves a thread would end the process.
template <class F>
auto caught(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return failure(Code::kResourceExhausted, "the function threw: out of memory");
  } catch (const std::exception& error) {
    return failure(Code::kInternal, "the function threw: {}", error.what());
  } catch (...) {
    return failure(Code::kInternal, "the function threw: no std::exception");
  }
}

// "map: element 17 of epoch 2: ..."
tl::unexpected<Error> element_failure(std::string_view stage, std::int64_t epoch, std::int64_t position,
                                      const Error& error);

// Keeps two laws whatever the upstream does: nothing throws, and an error stays until a restore succeeds.
class IteratorBase : public AnyIterator {
 public:
  Result<bool> skip(std::int64_t count) final;
  Status restore(State state) final;
  std::vector<StageReport> stages() const final;

 protected:
  explicit IteratorBase(const ElementType& type) : type_(type) {}

  // The stages that feed this one.
  virtual std::vector<StageReport> inputs() const { return {}; }
  // Gives the stage its name, and what the meter of its next_into() cannot tell: threads, queues.
  virtual void describe(StageReport& mine) const = 0;

  // As pull(), skip() and restore(), of an iterator without an error.
  virtual Result<bool> produce(Slot& slot) = 0;
  virtual Result<bool> pass_over(std::int64_t count);
  virtual Status resume(State state) = 0;

  // next_into() around produce().
  template <class Produce>
  Next counted(Slot& slot, const Produce& produce_here) {
    return meter_.call([&] {
      if (failed_) [[unlikely]] {
        slot.error = failed_;
        return Next::kError;
      }
      const Result<bool> made = caught(produce_here);
      if (!made) [[unlikely]] {
        slot.error = failed_ = made.error();
        return Next::kError;
      }
      if (!*made) return Next::kEnd;
      meter_.count();
      if (type_.bytes != nullptr) meter_.count_bytes(slot.bytes);
      return Next::kElement;
    });
  }

  const ElementType& type_;

 private:
  template <class F>
  auto sticky(F&& f) -> decltype(f()) {
    auto made = caught(std::forward<F>(f));
    if (!made) failed_ = made.error();
    return made;
  }

  std::optional<Error> failed_;
  Meter meter_;
};

// An iterator of the class `Made`, which knows its produce(): no call lies between the two, as it costs more than the
// work of most stages.
template <class Made, class Base = IteratorBase>
class Produces : public Base {
 public:
  using Base::Base;

  [[gnu::flatten]] Next next_into(Slot& slot) final {
    return this->counted(slot, [&] { return static_cast<Made*>(this)->Made::produce(slot); });
  }
};

// A walk whose position is one number: how many elements were given.
class PositionedIterator : public IteratorBase {
 public:
  State save() const final;

 protected:
  PositionedIterator(std::string name, const ElementType& type) : IteratorBase(type), name_(std::move(name)) {}

  // Back to the beginning.
  virtual Status rewind() { return {}; }
  void describe(StageReport& mine) const override { mine.name = name_; }
  Status resume(State state) final;
  // pass_over() where `total` is known.
  bool jump(std::int64_t count, std::int64_t total);

  std::int64_t position_ = 0;

 private:
  std::string name_;
};

// An iterator of one upstream.
class UpstreamIterator : public IteratorBase {
 public:
  UpstreamIterator(AnyStagePtr upstream, const ElementType& type, std::int64_t epoch)
      : IteratorBase(type), stage_(std::move(upstream)), epoch_(epoch) {}

  virtual Status open();

 protected:
  std::vector<StageReport> inputs() const override { return upstream_.stages(); }

  AnyStagePtr stage_;
  std::int64_t epoch_;
  Upstream upstream_;
};

// The stage of an UpstreamIterator. Made(upstream, epoch, options) is its iterator, which knows the size() too.
template <class Made, class Options>
class StageOf final : public AnyStage {
 public:
  StageOf(AnyStagePtr upstream, const ElementType& type, Options options)
      : upstream_(std::move(upstream)), type_(type), options_(std::move(options)) {}

  Result<std::unique_ptr<AnyIterator>> iterate_any(std::int64_t epoch) const override {
    auto iterator = std::make_unique<Made>(upstream_, type_, epoch, options_);
    XOE_TRY(iterator->open());
    return iterator;
  }
  std::optional<std::int64_t> size() const override { return Made::size(*upstream_, options_); }
  const ElementType& element_type() const override { return type_; }

 private:
  AnyStagePtr upstream_;
  const ElementType& type_;
  Options options_;
};

template <class Made, class Options>
AnyStagePtr make_stage(AnyStagePtr upstream, const ElementType& type, Options options) {
  return std::make_shared<StageOf<Made, Options>>(std::move(upstream), type, std::move(options));
}
// Of a stage whose elements are its upstream's.
template <class Made, class Options>
AnyStagePtr make_stage(AnyStagePtr upstream, Options options) {
  const ElementType& type = upstream->element_type();
  return make_stage<Made>(std::move(upstream), type, std::move(options));
}

}  // namespace xoe::data
