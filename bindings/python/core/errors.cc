#include "errors.h"

#include <nanobind/stl/string.h>

namespace xoe::python {

void raise(xoe_status status, const std::string& message, bool completed) {
  const char* name = xoe_status_name(status);
  const nb::object error =
      nb::module_::import_("xoe.errors").attr("_of_status")(name == nullptr ? "internal" : name, message, completed);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

nb::str take_text(char* text) {
  nb::str copy(text);
  xoe_text_free(text);
  return copy;
}

}  // namespace xoe::python
