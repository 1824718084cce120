// Loading vendors' shared libraries.
#pragma once

#include <string>
#include <vector>

#include "core/base/env.h"
#include "xoe/status.h"

namespace xoe {

// Never closed: a library's threads may go on.
class Library {
 public:
  // The first of `names` that the process has loaded already (PyTorch's, for example), else the first that loads.
  // `unavailable` with the loader's messages.
  static Result<Library> open(const std::vector<std::string>& names);

  // Sets the function to the symbol's address; null when the library lacks it.
  template <class Function>
  void find(Function& function, const char* symbol) const {
    function = reinterpret_cast<Function>(address_of(symbol));
  }
  std::string path() const;  // of its file

 private:
  explicit Library(void* handle) : handle_(handle) {}
  void* address_of(const char* symbol) const;

  void* handle_;
};

// The files of `places`, below site-packages/nvidia/ of NVIDIA's wheels, in the Python environments that the user most
// likely means: of VIRTUAL_ENV, CONDA_PREFIX and the python3 of PATH.
std::vector<std::string> find_in_wheels(const Env& env, const std::vector<std::string>& places);

}  // namespace xoe
