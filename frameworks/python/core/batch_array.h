// Part of a batch as Python sees it: shape, dtype, length, indexing, and DLPack and the buffer protocol without a copy.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "xoe/c.h"

namespace xoe::python {

namespace nb = nanobind;

// Memory that `owner` keeps. Indexing gives other views of it, and numbers where no axis is left.
class BatchArray {
 public:
  BatchArray(const xoe_output& output, nb::object owner);

  nb::tuple shape() const;
  std::int64_t size() const noexcept;  // elements
  std::int64_t length() const noexcept { return axes_[0].size; }
  std::size_t ndim() const noexcept { return axes_.size(); }
  const char* dtype() const { return xoe_dtype_name(dtype_); }
  std::size_t itemsize() const { return xoe_dtype_size(dtype_); }

  // Integers, slices that go forward, and an ellipsis, alone or in a tuple.
  nb::object at(nb::handle key) const;
  nb::object to_list() const;

  // The same memory as nanobind's array, which has DLPack and the buffer protocol.
  nb::object exported() const;

 private:
  struct Axis {
    std::int64_t size;
    std::int64_t stride;  // elements
  };

  void select(Axis axis, nb::handle key);
  nb::object part(std::int64_t index) const;  // of the first axis
  nb::object number() const;                  // REQUIRES: there is no axis

  void* data_;
  std::int32_t dtype_;
  std::vector<Axis> axes_;
  nb::object owner_;
};

void bind_batch_array(nb::module_& module);

}  // namespace xoe::python
