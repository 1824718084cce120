#include <filesystem>

#include "core/base/error.h"
#include "launch/doctor/checks/python.h"
#include "launch/remote/ask_program.h"
#include "launch/remote/program.h"

namespace xoe::doctor {
namespace {

// A package that is not there is no error. The last line that is printed is the answer.
constexpr const char* kQuestions = R"python(
import sys
sys.path[:] = [folder for folder in sys.path if folder]  # not the folder in which the doctor was called
import json, os
found = {"version": "%d.%d.%d" % sys.version_info[:3]}
def look(name, package, question):
    try:
        question()
    except BaseException as error:
        if not (isinstance(error, ModuleNotFoundError) and error.name == package):
            found[name + "_error"] = "%s: %s" % (type(error).__name__, error)
def xoe():
    import xoe
    if xoe.__file__ is None:
        raise ModuleNotFoundError("a folder called xoe", name="xoe")
    found["xoe_path"] = xoe.__path__[0]
    found["xoe"] = str(xoe.__version__)
def torch():
    import torch
    found["torch"] = str(torch.__version__)
def backend():
    from torch import distributed
    found["backend"] = "xoe" in distributed.Backend.backend_list
def torches():
    import importlib.metadata, re
    places = {}
    for folder in dict.fromkeys(map(os.path.realpath, sys.path)):
        here = set()
        version = os.path.join(folder, "torch", "version.py")
        if os.path.exists(version):
            with open(version, errors="replace") as file:
                match = re.search(r"__version__[^=]*=\s*['\"]([^'\"]{1,64})", file.read(4096))
            here.add(match.group(1) if match else "unknown")
            # Two installers, pip and conda, leave two records for one folder.
            for package in importlib.metadata.distributions(name="torch", path=[folder]):
                here.add(package.version)
        for version in sorted(here)[:8]:
            places.setdefault((folder, version.split("+")[0]), version + " in " + folder)
    found["torches"] = list(places.values())[:8]
def libraries():
    with open("/proc/self/maps", errors="replace") as maps:
        files = dict.fromkeys(line.split(maxsplit=5)[5].rstrip("\n") for line in maps if line.count("/"))
    for name, part in (("loaded_torch", "/libtorch_cpu.so"), ("libstdcxx", "/libstdc++.so.6")):
        found[name] = [file for file in files if part in file][:8]
look("xoe", "xoe", xoe)
look("torch", "torch", torch)
if "torch" in found:
    look("backend", "", backend)
found["prefix"] = sys.prefix
# The prefixes come of PYTHONHOME, where it is set; where the program lies does not.
program = getattr(sys, "_base_executable", None) or sys.executable
if program:
    found["base"] = os.path.dirname(os.path.dirname(os.path.realpath(program)))
for question in (torches, libraries):
    look(question.__name__, "", question)
print("\n" + json.dumps(found))
)python";

void read_variables(const Env& env, PythonFacts& facts) {
  const auto text = [&env](std::string_view name) { return env.text(name).value_or(""); };
  facts.environment = text("VIRTUAL_ENV");
  if (facts.environment.empty()) facts.environment = text("CONDA_PREFIX");
  facts.home = text("PYTHONHOME");
  facts.path = text("PYTHONPATH");
  facts.libraries = text("LD_LIBRARY_PATH");
  const auto other = remote::find_program("python", env);
  const auto folder = [](const std::string& program) { return std::filesystem::path(program).parent_path().string(); };
  if (other && !is_same_folder(folder(*other), folder(facts.program))) facts.other = *other;
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PythonFacts, version, xoe, xoe_path, xoe_error, torch, torch_error,
                                                backend, backend_error, prefix, base, torches, loaded_torch, libstdcxx)

PythonFacts ask_python(const Env& env, std::chrono::milliseconds timeout) {
  PythonFacts facts;
  const auto program = remote::find_program("python3", env);
  if (!program) return facts;
  const auto answer = remote::ask_program({*program, "-c", kQuestions}, remote::Inherited::current(), timeout);
  if (answer && !answer->in_time) {
    facts.error = fmt::format("no answer within {} s", timeout.count() / 1000);
  } else if (answer) {
    const auto end = answer->out.find_last_not_of('\n');
    const auto begin = answer->out.rfind('\n', end);
    const auto parsed = Json::parse(answer->out.substr(begin == std::string::npos ? 0 : begin), nullptr, false);
    if (parsed.is_object()) parsed.get_to(facts);
    if (facts.version.empty()) facts.error = "it ended without an answer";
  } else {
    facts.error = answer.error().message();
  }
  facts.program = *program;
  read_variables(env, facts);
  return facts;
}

bool is_same_folder(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return a == b || std::filesystem::equivalent(a, b, ignored);
}

}  // namespace xoe::doctor
