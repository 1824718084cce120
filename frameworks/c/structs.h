// Structs of the C interface, in all their versions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "core/base/error.h"
#include "frameworks/c/error.h"
#include "xoe/c.h"

namespace xoe::capi {

// The fields of `from` that the caller's header had, and the others from `defaults`. Fields that this library does not
// know must be 0. first_size: the size of the struct's first version.
template <class Struct>
Result<Struct> copy_struct(const Struct* from, Struct defaults, std::size_t first_size, std::string_view what) {
  const std::size_t size = from->struct_size;
  if (size < first_size)
    return failure(Code::kInvalidArgument, "{}: struct_size is {}, must be {} at least; call its _init() first", what,
                   size, first_size);
  if (size > (std::size_t{1} << 16))
    return failure(Code::kInvalidArgument, "{}: struct_size is {}; call its _init() first", what, size);
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(Struct); i < size; ++i)
    if (bytes[i] != 0)
      return failure(Code::kUnsupported, "{}: a field at byte {} is set that this version of Xoe does not know", what,
                     i);
  std::memcpy(&defaults, from, size < sizeof(Struct) ? size : sizeof(Struct));
  return defaults;
}

// Copies as much of the defaults as the caller's struct has room for, and zeros after them.
template <class Struct>
void init_struct(Struct* to, const Struct& defaults, std::size_t size) {
  if (to == nullptr || size < sizeof(std::size_t)) return;
  std::memcpy(to, &defaults, std::min(size, sizeof(Struct)));
  if (size > sizeof(Struct)) std::memset(to + 1, 0, size - sizeof(Struct));
  to->struct_size = size;
}

inline Status check_number(std::int64_t value, std::int64_t low, std::int64_t high, std::string_view what) {
  if (value >= low && value <= high) return {};
  return failure(Code::kInvalidArgument, "{} is {}, must be {} to {}", what, value, low, high);
}

// Fills a caller's array up to its capacity; `count` receives the number of all values.
template <class From, class To>
Status fill(const From& values, To* to, std::size_t capacity, std::size_t* count) {
  XOE_TRY(need(count, "count"));
  if (to == nullptr && capacity != 0)
    return failure(Code::kInvalidArgument, "the array is null, its capacity is not 0");
  *count = values.size();
  for (std::size_t i = 0; i < values.size() && i < capacity; ++i) to[i] = static_cast<To>(values[i]);
  return {};
}

// A copy of a text for the caller, who frees it with xoe_text_free().
Status copy_text(std::string_view from, char** text);

}  // namespace xoe::capi
