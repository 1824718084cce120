// The Python that `xoe run python` would start: the package xoe, PyTorch, and the backend "xoe" of torch.distributed.
#pragma once

#include <chrono>
#include <string>

#include "core/base/env.h"
#include "launch/doctor/report/finding.h"

namespace xoe::doctor {

struct PythonFacts {
  bool tried = true;         // false: of a recorded tree
  std::string program = {};  // python3 of PATH; empty: there is none
  std::string error = {};    // why it cannot be asked
  std::string version = {};  // "3.11.2"
  std::string xoe = {};      // the package's version; empty: it is not installed
  std::string xoe_path = {};
  std::string xoe_error = {};  // why it cannot be imported
  std::string torch = {};      // PyTorch's version; empty: it is not installed
  std::string torch_error = {};
  bool backend = false;  // torch.distributed knows the backend after `import torch`
  std::string backend_error = {};
};

// Imports the packages in a process of their own.
PythonFacts ask_python(const Env& env, std::chrono::milliseconds timeout);

// `version`: of this Xoe; `program`: the whole path of this one, which may lie in a package of another Python.
Findings check_python(const PythonFacts& facts, const std::string& version, const std::string& program);

}  // namespace xoe::doctor
