#include "frameworks/python/core/buckets.h"

#include <array>
#include <string>

#include "frameworks/python/core/arrays.h"
#include "frameworks/python/core/attributes.h"
#include "frameworks/python/core/errors.h"

namespace xoe::python {
namespace {

bool equal(nb::handle one, nb::handle other) {
  const int result = PyObject_RichCompareBool(one.ptr(), other.ptr(), Py_EQ);
  if (result < 0) throw nb::python_error();
  return result == 1;
}

}  // namespace

Buckets::Buckets(const Engine& engine, const char* name, const xoe_request& prepared, const nb::sequence& parameters,
                 nb::handle like)
    : type_(nb::borrow(like.type())), strided_(attribute(like, tensor_names().layout)) {
  const auto count = static_cast<std::size_t>(nb::len(parameters));
  std::vector<xoe_parameter> list(count);
  std::vector<std::string> texts(count);
  std::vector<std::vector<std::int64_t>> shapes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const nb::tuple one(parameters[i]);
    texts[i] = nb::cast<nb::str>(one[0]).c_str();
    std::int64_t bytes = 1;
    for (const nb::handle size : nb::tuple(one[1])) {
      shapes[i].push_back(nb::cast<std::int64_t>(size));
      bytes *= shapes[i].back();
    }
    const auto dtype = nb::cast<std::int32_t>(one[2]);
    list[i] = {texts[i].c_str(), shapes[i].data(), static_cast<std::int32_t>(shapes[i].size()), dtype, {}};
    parameters_.push_back({.dtype = nb::borrow(one[3]),
                           .strides = nb::borrow(one[4]),
                           .shape = nb::borrow(one[5]),
                           .data = nullptr,
                           .bytes = bytes * static_cast<std::int64_t>(xoe_dtype_size(dtype))});
  }
  xoe_request request = prepared;
  request.name = name;
  xoe_buckets* made = nullptr;
  const EnginePtr used = engine.get();
  check(call_released([&] { return xoe_buckets_create(used.get(), &request, list.data(), count, 0, &made); }));
  buckets_.reset(made);
  for (std::size_t i = 0; i < count; ++i) check(xoe_buckets_slot(made, i, &parameters_[i].data));
}

nb::object Buckets::slot(nb::handle self, std::size_t parameter) const {
  const Parameter& one = parameters_.at(parameter);
  if (one.data == nullptr) return nb::none();
  return nb::cast(array_of(one.data, &one.bytes, 1, XOE_UINT8, self));
}

Buckets::Put Buckets::put(std::size_t parameter, nb::handle tensor) {
  const Parameter& one = parameters_.at(parameter);
  const TensorNames& names = tensor_names();
  if (!tensor.type().is(type_) || !attribute(tensor, names.dtype).is(one.dtype) ||
      !attribute(tensor, names.layout).is(strided_) || !is_true(attribute(tensor, names.is_cpu)) ||
      is_true(attribute(tensor, names.requires_grad)) || !equal(call(tensor, names.stride), one.strides) ||
      !equal(attribute(tensor, names.shape), one.shape) || is_true(call(tensor, names.is_neg)))
    return Put::kNothing;
  const auto address = nb::cast<std::uintptr_t>(call(tensor, names.data_ptr));
  const void* const data = reinterpret_cast<const void*>(address);  // NOLINT(performance-no-int-to-ptr)
  check(call_released([&] { return xoe_buckets_put(buckets_.get(), parameter, data); }));
  return data == one.data ? Put::kLayThere : Put::kCopied;
}

void Buckets::put_zeros(std::size_t parameter) {
  check(call_released([&] { return xoe_buckets_put(buckets_.get(), parameter, nullptr); }));
}

void Buckets::leave_out(std::size_t parameter) {
  check(call_released([&] { return xoe_buckets_leave_out(buckets_.get(), parameter); }));
}

void Buckets::wait() {
  for (;;) {
    std::int32_t done = 0;
    const xoe_status status = call_released([&] { return xoe_buckets_wait(buckets_.get(), kSignalTimeout, &done); });
    if (status != XOE_OK) raise(status, xoe_last_error(), true);
    if (done != 0) return;
    look_at_signals();
  }
}

void Buckets::reset() {
  check(call_released([&] { return xoe_buckets_reset(buckets_.get()); }));
}

void bind_buckets(nb::module_& module) {
  nb::class_<Buckets>(module, "Buckets")
      .def(nb::init<const Engine&, const char*, const xoe_request&, const nb::sequence&, nb::handle>(),
           nb::arg("engine"), nb::arg("name"), nb::arg("request"), nb::arg("parameters"), nb::arg("like"),
           "Lays gradients out in memory that all ranks of the host map. Collective over the request's process set.\n\n"
           "parameters: tuples (name, shape in the order of memory, number of the type, PyTorch's type, PyTorch's "
           "strides and shape), in the order in which gradients become ready. like: any dense tensor.")
      .def(
          "slot",
          [](nb::handle self, std::size_t parameter) { return nb::cast<const Buckets&>(self).slot(self, parameter); },
          nb::arg("parameter"), "The bytes of a parameter's gradient, for DLPack; None: it is not in the buckets.")
      .def(
          "put",
          [](Buckets& buckets, std::size_t parameter, nb::handle tensor) {
            return static_cast<int>(buckets.put(parameter, tensor));
          },
          nb::arg("parameter"), nb::arg("tensor"),
          "Puts a gradient into its bucket: 1, or 2 if it lay there; 0, and nothing happened: it is no tensor of the "
          "shape and layout that the parameter was given with.")
      .def("put_zeros", &Buckets::put_zeros, nb::arg("parameter"), "This rank has no gradient for it.")
      .def("leave_out", &Buckets::leave_out, nb::arg("parameter"), "This rank does not train it.")
      .def("wait", &Buckets::wait, "Blocks until all are reduced, without the interpreter's lock; ends the step.")
      .def("reset", &Buckets::reset, "Gives up on the step.");
}

}  // namespace xoe::python
