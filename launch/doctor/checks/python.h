// The Python that `xoe run python` would start: the package xoe, PyTorch, and the backend "xoe" of torch.distributed.
#pragma once

#include <chrono>
#include <string>
#include <vector>

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
  std::string prefix = {};                     // of the interpreter's environment (sys.prefix)
  std::string base = {};                       // of the installation that its program belongs to; empty: not known
  std::vector<std::string> torches = {};       // "2.4.0 in /env/lib/python3.11/site-packages", the one imported first
  std::vector<std::string> loaded_torch = {};  // files libtorch_cpu.so that the process has
  std::vector<std::string> libstdcxx = {};     // files libstdc++.so.6 that it has
  // The program `python` of PATH, if it lies in another folder than python3; else empty.
  std::string other = {};
  // The variables of the process, where they are set.
  std::string environment = {};  // VIRTUAL_ENV, else CONDA_PREFIX
  std::string home = {};         // PYTHONHOME
  std::string path = {};         // PYTHONPATH
  std::string libraries = {};    // LD_LIBRARY_PATH
};

// Imports the packages in a process of their own.
PythonFacts ask_python(const Env& env, std::chrono::milliseconds timeout);
// Links are followed; a folder that is not there is only itself.
bool is_same_folder(const std::string& a, const std::string& b);

// `version`: of this Xoe; `program`: the whole path of this one, which may lie in a package of another Python.
Findings check_python(const PythonFacts& facts, const std::string& version, const std::string& program);

}  // namespace xoe::doctor
