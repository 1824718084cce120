#include "frameworks/python/core/batch_array.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "frameworks/python/core/arrays.h"

namespace xoe::python {
namespace {

template <class T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// The number that float16's bits mean. _Float16 is unknown to clang before 15.
double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  double magnitude = std::ldexp(exponent == 0 ? fraction : fraction + 0x400, std::max(exponent, 1) - 25);
  if (exponent == 0x1f)
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return (bits & 0x8000) == 0 ? magnitude : -magnitude;
}

bool is_slice(nb::handle key) { return PySlice_Check(key.ptr()) != 0; }
bool is_ellipsis(nb::handle key) { return key.ptr() == Py_Ellipsis; }
bool is_integer(nb::handle key) { return !nb::isinstance<nb::bool_>(key) && PyIndex_Check(key.ptr()) != 0; }

std::int64_t index_of(nb::handle key, std::int64_t size) {
  const Py_ssize_t index = PyNumber_AsSsize_t(key.ptr(), PyExc_IndexError);
  if (index == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  const std::int64_t from_front = index < 0 ? index + size : index;
  if (from_front < 0 || from_front >= size) {
    const std::string message =
        "index " + std::to_string(index) + " is out of range for an axis of " + std::to_string(size);
    throw nb::index_error(message.c_str());
  }
  return from_front;
}

int export_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  try {
    // The exporter is nanobind's array, which the view keeps.
    const nb::object array = nb::inst_ptr<BatchArray>(self)->exported();
    return PyObject_GetBuffer(array.ptr(), view, flags);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
    return -1;
  }
}

// numpy's protocol, which it uses where it cannot use the buffer.
nb::object to_numpy(const BatchArray& array, nb::handle dtype, nb::handle copy) {
  if (std::string_view(array.dtype()) == "bfloat16")
    throw nb::type_error("numpy has no bfloat16: take torch.from_dlpack(...), or open the images with another dtype");
  const nb::object numpy = nb::module_::import_("numpy");
  const nb::object same = numpy.attr("asarray")(array.exported());
  const bool may_share = copy.is_none() || !nb::cast<bool>(copy);
  const nb::object type = dtype.is_none() ? nb::object(same.attr("dtype")) : nb::borrow(dtype);
  return same.attr("astype")(type, nb::arg("copy") = !may_share);
}

nb::str described(const BatchArray& array) {
  return nb::str("BatchArray(shape={}, dtype={})").format(array.shape(), array.dtype());
}

}  // namespace

BatchArray::BatchArray(const xoe_output& output, nb::object owner)
    : data_(output.data), dtype_(output.dtype), axes_(static_cast<std::size_t>(output.ndim)), owner_(std::move(owner)) {
  std::int64_t stride = 1;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    axes_[i] = {output.shape[i], stride};
    stride *= output.shape[i];
  }
}

nb::tuple BatchArray::shape() const {
  nb::list sizes;
  for (const Axis& axis : axes_) sizes.append(axis.size);
  return nb::tuple(sizes);
}

std::int64_t BatchArray::size() const noexcept {
  std::int64_t elements = 1;
  for (const Axis& axis : axes_) elements *= axis.size;
  return elements;
}

// Takes what `key` says of an axis, behind those that were taken before.
void BatchArray::select(Axis axis, nb::handle key) {
  const auto pass = [this](std::int64_t elements) {
    data_ = static_cast<std::byte*>(data_) + elements * static_cast<std::int64_t>(itemsize());
  };
  if (is_integer(key)) return pass(index_of(key, axis.size) * axis.stride);
  if (!is_slice(key))
    throw nb::type_error(
        "indices are integers, slices and ...; for others use torch.from_dlpack(array) or numpy.asarray(array)");
  Py_ssize_t start = 0;
  Py_ssize_t stop = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(key.ptr(), &start, &stop, &step) < 0) throw nb::python_error();
  if (step < 1) throw nb::value_error("slices go forward here, as those of torch do");
  const Py_ssize_t count = PySlice_AdjustIndices(axis.size, &start, &stop, step);
  if (count > 0) pass(start * axis.stride);
  axes_.push_back({count, axis.stride * step});
}

nb::object BatchArray::at(nb::handle key) const {
  std::vector<nb::object> keys;
  if (nb::isinstance<nb::tuple>(key))
    for (const nb::handle one : nb::borrow<nb::tuple>(key)) keys.push_back(nb::borrow(one));
  else
    keys.push_back(nb::borrow(key));
  std::size_t ellipses = 0;
  for (const nb::object& one : keys) ellipses += is_ellipsis(one) ? 1 : 0;
  if (ellipses > 1) throw nb::index_error("an index can have one ellipsis");
  if (keys.size() - ellipses > axes_.size())
    throw nb::index_error(("too many indices: there are " + std::to_string(axes_.size()) + " axes").c_str());

  BatchArray view = *this;
  view.axes_.clear();
  std::size_t axis = 0;
  for (const nb::object& one : keys) {
    if (!is_ellipsis(one)) {
      view.select(axes_[axis++], one);
      continue;
    }
    for (const std::size_t end = axis + axes_.size() - (keys.size() - 1); axis < end; ++axis)
      view.axes_.push_back(axes_[axis]);
  }
  for (; axis < axes_.size(); ++axis) view.axes_.push_back(axes_[axis]);
  return view.axes_.empty() ? view.number() : nb::cast(std::move(view));
}

nb::object BatchArray::part(std::int64_t index) const { return at(nb::int_(index)); }

nb::object BatchArray::number() const {
  switch (dtype_) {
    case XOE_UINT8: return nb::int_(load<std::uint8_t>(data_));
    case XOE_INT64: return nb::int_(load<std::int64_t>(data_));
    case XOE_FLOAT16: return nb::float_(half_value(load<std::uint16_t>(data_)));
    case XOE_BFLOAT16: return nb::float_(std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(data_)} << 16));
    case XOE_FLOAT32: return nb::float_(load<float>(data_));
    default: throw nb::type_error("batches have no elements of this type");
  }
}

nb::object BatchArray::to_list() const {
  nb::list list;
  for (std::int64_t i = 0; i < length(); ++i) {
    nb::object one = part(i);
    list.append(axes_.size() == 1 ? one : nb::cast<const BatchArray&>(one).to_list());
  }
  return list;
}

nb::object BatchArray::exported() const {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  for (const Axis& axis : axes_) {
    sizes.push_back(axis.size);
    strides.push_back(axis.stride);
  }
  return nb::cast(
      array_of(data_, sizes.data(), static_cast<std::int32_t>(sizes.size()), dtype_, owner_, strides.data()));
}

void bind_batch_array(nb::module_& module) {
  static const PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(export_buffer)}, {0, nullptr}};
  nb::class_<BatchArray>(module, "BatchArray", nb::type_slots(slots),
                         "Memory of a batch: with a shape, a type and indices, and for DLPack and the buffer protocol.")
      .def_prop_ro("shape", &BatchArray::shape)
      .def_prop_ro("dtype", &BatchArray::dtype, "The name of the elements' type: float32.")
      .def_prop_ro("ndim", &BatchArray::ndim)
      .def_prop_ro("size", &BatchArray::size)
      .def_prop_ro("itemsize", &BatchArray::itemsize)
      .def_prop_ro("nbytes", [](const BatchArray& array) { return array.size() * std::int64_t(array.itemsize()); })
      .def("__len__", &BatchArray::length)
      .def("__getitem__", &BatchArray::at, nb::arg("key"))
      .def("__iter__",
           [](const BatchArray& array) {
             nb::list parts;
             for (std::int64_t i = 0; i < array.length(); ++i) parts.append(array.at(nb::int_(i)));
             return nb::iter(parts);
           })
      .def("tolist", &BatchArray::to_list, "Nested lists of numbers.")
      .def("__repr__", &described)
      .def("__array__", &to_numpy, nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack__", [](const BatchArray& array,
                            const nb::kwargs& options) { return array.exported().attr("__dlpack__")(**options); })
      .def("__dlpack_device__", [](const BatchArray& array) { return array.exported().attr("__dlpack_device__")(); });
}

}  // namespace xoe::python
