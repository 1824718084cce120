// Three types that Gloo's installed headers use and that it does not install: each is one pointer of the standard
// library. Where Gloo's own header is installed, it is found before this one.
#pragma once

#include <memory>

namespace gloo {

template <typename T>
class WeakNonOwningPtr;

template <typename T>
class NonOwningPtr final {
  std::shared_ptr<T> pointer_;
};

template <typename T>
class ShareableNonOwningPtr final {
  std::shared_ptr<T> pointer_;
  friend class WeakNonOwningPtr<T>;
};

template <typename T>
class WeakNonOwningPtr final {
 public:
  WeakNonOwningPtr() = default;
  explicit WeakNonOwningPtr(const ShareableNonOwningPtr<T>& shared) : pointer_(shared.pointer_) {}

 private:
  std::weak_ptr<T> pointer_;
};

}  // namespace gloo
