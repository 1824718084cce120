// Included by stages.h: how interleave() works.
#pragma once

#include <memory>
#include <utility>

#include "xoe/data/detail/interleave_iterator_inl.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace detail {

template <class T, class U>
class InterleaveStage final : public Stage<U> {
 public:
  InterleaveStage(StagePtr<T> upstream, typename InterleaveIterator<T, U>::Open open, InterleaveOptions options)
      : upstream_(std::move(upstream)), open_(std::move(open)), options_(options) {}

  Result<IteratorPtr<U>> iterate(std::int64_t epoch) const override {
    const auto& o = options_;
    if (o.cycle_length == kAutoCycle && (o.deterministic || o.threads == 0))
      return failure(Code::kInvalidArgument,
                     "interleave: kAutoCycle needs threads and deterministic = false: the order depends on the cycle");
    if ((o.cycle_length < 1 && o.cycle_length != kAutoCycle) || o.block_length < 1 || o.threads < kAutoThreads ||
        o.ahead < 1)
      return failure(
          Code::kInvalidArgument,
          "interleave: cycle_length (or kAutoCycle), block_length and ahead are 1 or more, threads 0 or more, or "
          "kAutoThreads");
    auto iterator = std::make_unique<InterleaveIterator<T, U>>(upstream_, open_, options_, epoch);
    if (auto opened = iterator->open(); !opened) return failure(opened.error());
    return iterator;
  }
  std::optional<std::int64_t> size() const override { return std::nullopt; }

 private:
  StagePtr<T> upstream_;
  typename InterleaveIterator<T, U>::Open open_;
  InterleaveOptions options_;
};

}  // namespace detail

template <class U, class T>
StagePtr<U> interleave(StagePtr<T> upstream, std::function<Result<StagePtr<U>>(const T&)> open,
                       InterleaveOptions options) {
  return std::make_shared<detail::InterleaveStage<T, U>>(std::move(upstream), std::move(open), options);
}

}  // namespace xoe::data
