#include "launch/doctor/checks/python.h"

#include <cstdio>
#include <filesystem>

#include "core/base/error.h"
#include "launch/remote/ask_program.h"
#include "launch/remote/program.h"

namespace xoe::doctor {

namespace {

// A package that is not there is no error. The last line that is printed is the answer.
constexpr const char* kQuestions = R"(
import json, sys
sys.path[:] = [folder for folder in sys.path if folder]  # not the folder in which the doctor was called
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
look("xoe", "xoe", xoe)
look("torch", "torch", torch)
if "torch" in found:
    look("backend", "", backend)
print("\n" + json.dumps(found))
)";

// PyTorch 2.4 is the oldest that Xoe is for.
bool too_old(const std::string& torch) {
  int major = 0;
  int minor = 0;
  return std::sscanf(torch.c_str(), "%d.%d", &major, &minor) == 2 && (major < 2 || (major == 2 && minor < 4));
}

// How this Python comes by the package, given where this program lies: in a package of another Python, in a build, or
// elsewhere.
std::string way_to_package(const PythonFacts& facts, const std::string& program) {
  namespace fs = std::filesystem;
  const fs::path own = fs::path(program).parent_path().parent_path();
  std::error_code ignored;
  if (own.parent_path().filename() == "site-packages") {
    const fs::path prefix = own.parent_path().parent_path().parent_path().parent_path();
    return fmt::format("this xoe belongs to the Python of {}: activate that environment, or install Xoe for {}",
                       prefix.string(), facts.program);
  }
  if (fs::exists(own / "python/xoe/__init__.py", ignored))
    return fmt::format("PYTHONPATH={} finds the package of this build; or install a wheel (scripts/wheel.sh)",
                       (own / "python").string());
  return fmt::format("for Python programs: {} -m pip install a wheel of Xoe", facts.program);
}

Finding check_package(const PythonFacts& facts, const std::string& version, const std::string& program) {
  Finding finding{.id = "python.package", .what = {}, .why = "Python programs import xoe, and xoe.torch"};
  finding.details = {{"program", facts.program},
                     {"python", facts.version},
                     {"version", facts.xoe},
                     {"path", facts.xoe_path},
                     {"error", facts.xoe_error}};
  const std::string python = fmt::format("Python {} ({})", facts.version, facts.program);
  if (!facts.xoe_error.empty()) {
    finding.report(
        Severity::kProblem, fmt::format("{} cannot import xoe: {}", python, facts.xoe_error),
        fmt::format("install it again for this Python: {} -m pip install --force-reinstall WHEEL", facts.program));
  } else if (facts.xoe.empty()) {
    finding.report(Severity::kNote, fmt::format("{} has no package xoe", python), way_to_package(facts, program));
  } else if (facts.xoe != version) {
    finding.report(
        Severity::kWarning, fmt::format("{} has xoe {}, and this is {}", python, facts.xoe, version),
        fmt::format("let PATH name one of the two: the package is in {}, this program is {}", facts.xoe_path, program));
  } else {
    finding.what = fmt::format("{} has xoe {}", python, facts.xoe);
  }
  return finding;
}

Finding check_torch(const PythonFacts& facts) {
  Finding finding{.id = "python.torch",
                  .what = {},
                  .why = "xoe.torch needs PyTorch 2.4 or later; the rest of the package does not"};
  finding.details = {{"version", facts.torch}, {"error", facts.torch_error}};
  if (!facts.torch_error.empty()) {
    finding.report(Severity::kWarning, fmt::format("PyTorch cannot be imported: {}", facts.torch_error),
                   fmt::format("install it again, with what it depends on: {} -m pip install torch", facts.program));
  } else if (facts.torch.empty()) {
    finding.report(Severity::kNote, "PyTorch is not installed",
                   fmt::format("for programs that use PyTorch: {} -m pip install torch", facts.program));
  } else if (too_old(facts.torch)) {
    finding.report(Severity::kWarning,
                   fmt::format("PyTorch {} is older than 2.4, the oldest that xoe.torch is for", facts.torch),
                   fmt::format("{} -m pip install --upgrade torch", facts.program));
  } else {
    finding.what = fmt::format("PyTorch {}", facts.torch);
  }
  return finding;
}

Finding check_registration(const PythonFacts& facts) {
  Finding finding{.id = "python.backend",
                  .what = "torch.distributed has the backend \"xoe\"",
                  .why = "init_process_group(\"xoe\") runs DistributedDataParallel and its like on Xoe"};
  finding.details = {{"registered", facts.backend}, {"error", facts.backend_error}};
  if (!facts.backend_error.empty())
    finding.report(Severity::kWarning, fmt::format("torch.distributed does not work: {}", facts.backend_error),
                   "install a PyTorch that is built with torch.distributed");
  else if (!facts.backend)
    finding.report(Severity::kNote, "PyTorch does not find the backend \"xoe\" of torch.distributed by itself",
                   "programs that want it begin with `import xoe.torch.distributed`; from PyTorch 2.5 on, an installed "
                   "package (not one of PYTHONPATH) is found");
  return finding;
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PythonFacts, version, xoe, xoe_path, xoe_error, torch, torch_error,
                                                backend, backend_error)

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
  return facts;
}

Findings check_python(const PythonFacts& facts, const std::string& version, const std::string& program) {
  Finding none{.id = "python.package", .what = {}, .why = "Python programs import xoe, and xoe.torch"};
  if (!facts.tried)
    none.report(Severity::kSkipped, "Python not tried: this is a recorded tree");
  else if (facts.program.empty())
    none.report(Severity::kNote, "there is no python3 in PATH", "for Python programs: install Python 3.10 or later");
  else if (!facts.error.empty())
    none.report(Severity::kWarning, fmt::format("{} does not say what it has: {}", facts.program, facts.error),
                fmt::format("run {} -c 'import xoe, torch'", facts.program));
  if (!none.what.empty()) return {none};
  Findings findings = {check_package(facts, version, program), check_torch(facts)};
  if (!facts.xoe.empty() && !facts.torch.empty()) findings.push_back(check_registration(facts));
  return findings;
}

}  // namespace xoe::doctor
