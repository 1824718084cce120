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

#include "core/base/error.h"
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
  IteratorBase(std::string name, const ElementType& type) : type_(type), name_(std::move(name)) {}

  // The stages that feed this one.
  virtual std::vector<StageReport> inputs() const { return {}; }
  // Adds what the meter of next_into() cannot tell: threads, queues.
  virtual void describe(StageReport& mine) const { static_cast<void>(mine); }

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
  const std::string name_;  // in reports

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
  using IteratorBase::IteratorBase;

  // Back to the beginning.
  virtual Status rewind() { return {}; }
  Status resume(State state) final;
  // pass_over() where `total` is known.
  bool jump(std::int64_t count, std::int64_t total);

  std::int64_t position_ = 0;
};

// An iterator of one upstream. Its position is the upstream's and `fields`, numbers of its own.
class UpstreamIterator : public IteratorBase {
 public:
  struct Field {
    const char* name;
    std::int64_t* value;
  };
  UpstreamIterator(std::string name, AnyStagePtr upstream, const ElementType& type, std::int64_t epoch,
                   std::vector<Field> fields)
      : IteratorBase(std::move(name), type), stage_(std::move(upstream)), epoch_(epoch), fields_(std::move(fields)) {}

  virtual Status open();
  State save() const override { return with_fields(upstream_->save()); }
  Status resume(State state) override;
  template <class Options>
  static std::optional<std::int64_t> size(const AnyStage& upstream, const Options&) {
    return upstream.size();
  }

 protected:
  std::vector<StageReport> inputs() const override { return upstream_.stages(); }
  // `state` with the fields, and the fields from it.
  State with_fields(State state) const;
  Status take_fields(State& state);

  AnyStagePtr stage_;
  std::int64_t epoch_;
  Upstream upstream_;

 private:
  std::vector<Field> fields_;
};

// A stage of two functions: open(epoch) and size().
template <class Open, class Size>
class StageOf final : public AnyStage {
 public:
  StageOf(const ElementType& type, Open open, Size size)
      : type_(type), open_(std::move(open)), size_(std::move(size)) {}

  Result<AnyIteratorPtr> iterate_any(std::int64_t epoch) const override { return open_(epoch); }
  std::optional<std::int64_t> size() const override { return size_(); }
  const ElementType& element_type() const override { return type_; }

 private:
  const ElementType& type_;
  Open open_;
  Size size_;
};
template <class Open, class Size>
AnyStagePtr make_stage(const ElementType& type, Open open, Size size) {
  return std::make_shared<StageOf<Open, Size>>(type, std::move(open), std::move(size));
}

// The iterator Made(arguments), opened.
template <class Made, class... Arguments>
Result<AnyIteratorPtr> opened(const Arguments&... arguments) {
  auto iterator = std::make_unique<Made>(arguments...);
  XOE_TRY(iterator->open());
  return iterator;
}

// The stage of an UpstreamIterator, which knows the size() too.
template <class Made, class Options>
AnyStagePtr make_stage(AnyStagePtr upstream, const ElementType& type, Options options) {
  return make_stage(
      type, [=, &type](std::int64_t epoch) { return opened<Made>(upstream, type, epoch, options); },
      [=] { return Made::size(*upstream, options); });
}

}  // namespace xoe::data
