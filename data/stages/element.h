// Elements whose type the core does not know: one, or a list of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "xoe/data/stage.h"

namespace xoe::data {

// Copies an element of a type for which that is enough.
inline void copy_bytes(const ElementType& type, void* to, const void* from) {
  if (type.size == sizeof(std::int64_t))
    std::memcpy(to, from, sizeof(std::int64_t));  // a size that the compiler knows needs no call
  else
    std::memcpy(to, from, type.size);
}
inline void move_element(const ElementType& type, void* to, void* from) {
  if (type.move == nullptr)
    copy_bytes(type, to, from);
  else
    type.move(to, from);
}
inline std::int64_t bytes_of_element(const ElementType& type, const void* element) {
  return type.bytes == nullptr ? type.fixed_bytes : type.bytes(element);
}
inline void destroy_element(const ElementType& type, void* element) {
  if (type.destroy != nullptr) type.destroy(element);
}

// Uninitialised memory for elements of one type.
struct AlignedDelete {
  std::align_val_t align{1};
  void operator()(void* memory) const noexcept { ::operator delete(memory, align); }
};
using ElementMemory = std::unique_ptr<void, AlignedDelete>;
inline ElementMemory allocate_elements(const ElementType& type, std::size_t count) {
  const std::align_val_t align{type.align};
  return {::operator new(type.size* count, align), AlignedDelete{align}};
}

// Room for one element. Small ones lie within.
class ElementBox {
 public:
  explicit ElementBox(const ElementType& type);
  ElementBox(const ElementBox&) = delete;
  ElementBox& operator=(const ElementBox&) = delete;
  ~ElementBox() { clear(); }

  // make(slot), a Result<bool> or Status, constructs the element, unless it returns an error or false.
  template <class Make>
  auto fill(Make&& make) -> decltype(make(std::declval<Slot&>())) {
    clear();
    Slot slot{at_};
    auto made = make(slot);
    full_ = is_there(made);
    bytes_ = slot.bytes;
    return made;
  }
  Result<bool> pull(AnyIterator& upstream) {
    return fill([&](Slot& slot) { return upstream.pull(slot); });
  }
  // Moves the element there. REQUIRES: full.
  void give(Slot& to) {
    move_element(type_, to.at, at_);
    to.bytes = bytes_;
    full_ = false;
  }
  void clear() {
    if (std::exchange(full_, false)) destroy_element(type_, at_);
  }

  bool full() const noexcept { return full_; }
  void* get() const noexcept { return at_; }
  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t kInside = 128;

  static bool is_there(const Result<bool>& made) { return made && *made; }
  static bool is_there(const Status& made) { return made.has_value(); }

  const ElementType& type_;
  alignas(std::max_align_t) std::byte inside_[kInside];
  ElementMemory outside_;
  void* at_ = inside_;
  bool full_ = false;
  std::int64_t bytes_ = 0;
};

// Elements side by side, taken out at the front or in any order.
class ElementList {
 public:
  explicit ElementList(const ElementType& type) : type_(&type) {}
  ElementList(ElementList&& other) noexcept
      : type_(other.type_),
        memory_(std::move(other.memory_)),
        capacity_(std::exchange(other.capacity_, 0)),
        first_(std::exchange(other.first_, 0)),
        end_(std::exchange(other.end_, 0)) {}
  ElementList& operator=(ElementList&&) = delete;
  ~ElementList() { clear(); }

  std::size_t size() const noexcept { return end_ - first_; }
  void* at(std::size_t index) const noexcept {
    return static_cast<std::byte*>(memory_.get()) + (first_ + index) * type_->size;
  }

  // Appends the next element of `upstream`, and adds its bytes to `bytes`; false at the end.
  Result<bool> pull(AnyIterator& upstream, std::int64_t* bytes = nullptr) {
    if (end_ == capacity_) grow();
    Slot slot{at(size())};
    Result<bool> there = upstream.pull(slot);
    if (there && *there) ++end_;
    if (bytes != nullptr) *bytes += slot.bytes;
    return there;
  }
  // Moves the first element there.
  void give_first(Slot& to) {
    give(0, to);
    ++first_;
  }
  // Moves element `index` there; the last one takes its place.
  void give_any(std::size_t index, Slot& to) {
    give(index, to);
    --end_;
    if (index != size()) move_element(*type_, at(index), at(size()));
  }
  void clear();

 private:
  void give(std::size_t index, Slot& to) {
    move_element(*type_, to.at, at(index));
    to.bytes = bytes_of_element(*type_, to.at);
  }
  void grow();

  const ElementType* type_;
  ElementMemory memory_;
  std::size_t capacity_ = 0;
  std::size_t first_ = 0;
  std::size_t end_ = 0;
};

}  // namespace xoe::data
