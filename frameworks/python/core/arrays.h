// Shows the library's memory as arrays that frameworks use without a copy (DLPack, buffer protocol).
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>

#include "xoe/c.h"

namespace xoe::python {

namespace nb = nanobind;

using Array = nb::ndarray<nb::array_api, nb::device::cpu>;

// `owner` lives as long as the array does. `strides` count elements; null: rows lie behind each other.
Array array_of(void* data, const std::int64_t* shape, std::int32_t ndim, std::int32_t dtype, nb::handle owner,
               const std::int64_t* strides = nullptr);

}  // namespace xoe::python
