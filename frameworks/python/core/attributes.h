// Attributes and methods of Python objects, with the least effort.
#pragma once

#include <nanobind/nanobind.h>

#include <array>

namespace xoe::python {

namespace nb = nanobind;

inline nb::object taken(PyObject* result) {
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

inline nb::object attribute(nb::handle object, PyObject* name) { return taken(PyObject_GetAttr(object.ptr(), name)); }

// Without arguments.
inline nb::object call(nb::handle object, PyObject* method) {
  std::array<PyObject*, 2> arguments = {nullptr, object.ptr()};
  return taken(PyObject_VectorcallMethod(method, &arguments[1], 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

// Names of the attributes of PyTorch's tensors.
struct TensorNames {
  PyObject* is_cpu = PyUnicode_InternFromString("is_cpu");
  PyObject* dtype = PyUnicode_InternFromString("dtype");
  PyObject* layout = PyUnicode_InternFromString("layout");
  PyObject* shape = PyUnicode_InternFromString("shape");
  PyObject* stride = PyUnicode_InternFromString("stride");
  PyObject* is_contiguous = PyUnicode_InternFromString("is_contiguous");
  PyObject* is_neg = PyUnicode_InternFromString("is_neg");
  PyObject* requires_grad = PyUnicode_InternFromString("requires_grad");
  PyObject* data_ptr = PyUnicode_InternFromString("data_ptr");
};

// Never freed: the interpreter may end before this library.
inline const TensorNames& tensor_names() {
  static const TensorNames names;
  return names;
}

inline bool is_true(nb::handle value) { return value.ptr() == Py_True; }

}  // namespace xoe::python
