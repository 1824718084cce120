#include "data/stages/iterator_base.h"

#include <algorithm>

namespace xoe::data {

std::vector<StageReport> AnyIterator::stages() const { return {}; }

tl::unexpected<Error> element_failure(std::string_view stage, std::int64_t epoch, std::int64_t position,
                                      const Error& error) {
  return failure(error.code(), "{}: element {} of epoch {}: {}", stage, position, epoch, error.message());
}

ElementBox::ElementBox(const ElementType& type) : type_(type) {
  if (type.size <= kInside && type.align <= alignof(std::max_align_t)) return;
  outside_ = allocate_elements(type, 1);
  at_ = outside_.get();
}

void ElementList::clear() {
  for (std::size_t i = 0; type_->destroy != nullptr && i < size(); ++i) type_->destroy(at(i));
  first_ = end_ = 0;
}

void ElementList::grow() {
  const std::size_t capacity = std::max<std::size_t>(2 * size(), 16);
  ElementMemory larger = allocate_elements(*type_, capacity);
  for (std::size_t i = 0; i < size(); ++i)
    move_element(*type_, static_cast<std::byte*>(larger.get()) + i * type_->size, at(i));
  memory_ = std::move(larger);
  capacity_ = capacity;
  end_ -= std::exchange(first_, 0);
}

Result<bool> IteratorBase::skip(std::int64_t count) {
  return meter_.call([&]() -> Result<bool> {
    if (failed_) return failure(*failed_);
    return sticky([&] { return pass_over(count); });
  });
}

Status IteratorBase::restore(State state) {
  failed_.reset();
  meter_.reset();
  return sticky([&] { return resume(std::move(state)); });
}

std::vector<StageReport> IteratorBase::stages() const {
  std::vector<StageReport> all = inputs();
  StageReport mine;
  meter_.report(mine);
  if (type_.bytes == nullptr) mine.bytes = mine.elements * type_.fixed_bytes;
  mine.name = name_;
  describe(mine);
  feed_stage(all, std::move(mine));
  return all;
}

Result<bool> IteratorBase::pass_over(std::int64_t count) {
  ElementBox passed(type_);
  for (; count > 0; --count) {
    XOE_ASSIGN(const bool there, passed.fill([&](Slot& slot) { return produce(slot); }));
    if (!there) return false;
  }
  return true;
}

State PositionedIterator::save() const {
  State state;
  state.push(name_ + ".position", position_);
  return state;
}

Status PositionedIterator::resume(State state) {
  XOE_ASSIGN(const std::int64_t position, state.pop(name_ + ".position"));
  XOE_TRY(rewind());
  position_ = 0;
  const auto there = position < 0 ? Result<bool>(false) : pass_over(position);
  if (!there) return failure(there.error());
  if (*there) return {};
  return failure(Code::kInvalidArgument, "saved position: element {} is past the end of {}", position, name_);
}

bool PositionedIterator::jump(std::int64_t count, std::int64_t total) {
  const std::int64_t left = total - position_;
  position_ += std::min(count, left);
  return count <= left;
}

Status UpstreamIterator::open() {
  XOE_ASSIGN(upstream_, stage_->iterate_any(epoch_));
  return {};
}

State UpstreamIterator::with_fields(State state) const {
  for (const Field& field : fields_) state.push(field.name, *field.value);
  return state;
}

Status UpstreamIterator::take_fields(State& state) {
  for (auto field = fields_.rbegin(); field != fields_.rend(); ++field) {
    XOE_ASSIGN(*field->value, state.pop(field->name));
  }
  return {};
}

Status UpstreamIterator::resume(State state) {
  XOE_TRY(take_fields(state));
  return upstream_->restore(std::move(state));
}

}  // namespace xoe::data
