#include "frameworks/python/core/errors.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>

namespace xoe::python {

void raise(xoe_status status, const std::string& message, bool completed) {
  const char* name = xoe_status_name(status);
  const nb::object error = nb::module_::import_("xoe.errors")
                               .attr("_of_status")(name == nullptr ? "internal" : name, text_from(message), completed);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

nb::str text_from(std::string_view text) {
  PyObject* const copy = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (copy == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(copy);
}

nb::str take_text(char* text) {
  const std::unique_ptr<char, decltype(&xoe_text_free)> owned(text, xoe_text_free);
  return text_from(text);
}

}  // namespace xoe::python
