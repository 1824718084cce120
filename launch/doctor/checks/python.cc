#include "launch/doctor/checks/python.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::doctor {

namespace {

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

// "3.11" of "python3.11" and "python3.11t" (without the global lock), as Python calls its folders; empty: another name.
std::string_view version_of_folder(std::string_view name) {
  constexpr std::string_view kName = "python";
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (!name.starts_with(kName)) return {};
  name.remove_prefix(kName.size());
  if (name.ends_with('t')) name.remove_suffix(1);
  const auto dot = name.find('.');
  if (dot == std::string_view::npos || !is_number(name.substr(0, dot)) || !is_number(name.substr(dot + 1))) return {};
  return name;
}

// "/users/ada/lib/python3.9/site-packages" of PYTHONPATH, if it belongs to another Python than version "3.11.2".
std::string path_of_another(const PythonFacts& facts) {
  const auto own = split_text(facts.version, '.');
  if (own.size() < 2) return {};
  const std::string mine = fmt::format("{}.{}", own[0], own[1]);
  for (const std::string& folder : split_text(facts.path, ':'))
    for (const std::string& part : split_text(folder, '/'))
      if (const auto version = version_of_folder(part); !version.empty() && version != mine) return folder;
  return {};
}

Finding check_interpreter(const PythonFacts& facts) {
  Finding finding{.id = "python.interpreter",
                  .what = fmt::format("{} of {}", facts.program, facts.prefix),
                  .why =
                      "packages belong to one Python; a job that starts another one does not find them, or finds old "
                      "ones"};
  finding.details = {{"prefix", facts.prefix}, {"environment", facts.environment}, {"other", facts.other},
                     {"base", facts.base},     {"PYTHONHOME", facts.home},         {"PYTHONPATH", facts.path}};
  const std::string foreign = path_of_another(facts);
  // "PREFIX" or "PREFIX:EXEC_PREFIX", from which Python takes sys.prefix.
  const std::string home = split_text(facts.home, ':').front();
  if (!home.empty() && !facts.base.empty() && !is_same_folder(home, facts.base)) {
    finding.report(Severity::kWarning,
                   fmt::format("PYTHONHOME={} leads the Python of {} to another installation", facts.home, facts.base),
                   "unset PYTHONHOME");
  } else if (!facts.environment.empty() && !is_same_folder(facts.environment, facts.prefix)) {
    finding.report(
        Severity::kWarning,
        fmt::format("the environment {} is active, but python3 of PATH is that of {}", facts.environment, facts.prefix),
        fmt::format("{}activate it again, or start programs with {}/bin/python3; shells of ssh and of batch jobs "
                    "may set PATH after it",
                    home.empty() ? "" : "unset PYTHONHOME, which hides environments; then ", facts.environment));
  } else if (!foreign.empty()) {
    finding.report(Severity::kWarning,
                   fmt::format("PYTHONPATH has {}, which belongs to another Python than {}", foreign, facts.version),
                   "take it off PYTHONPATH, which every Python reads");
  } else if (!facts.other.empty()) {
    finding.report(Severity::kNote, fmt::format("python is {}, and python3 is {}", facts.other, facts.program),
                   "start programs with the one that has the packages: xoe run python3 train.py");
  }
  return finding;
}

Finding check_torches(const PythonFacts& facts) {
  Finding finding{.id = "python.torches",
                  .what = "one PyTorch is installed",
                  .why = "of two the first on Python's path is taken, and libraries of both may meet in one process"};
  finding.details = {{"installed", facts.torches}, {"loaded", facts.loaded_torch}};
  if (facts.loaded_torch.size() > 1)
    finding.report(
        Severity::kProblem,
        fmt::format("the process loads libtorch from several files: {}", fmt::join(facts.loaded_torch, ", ")),
        "take the other folder off LD_LIBRARY_PATH and LD_PRELOAD");
  else if (facts.torches.size() > 1)
    finding.report(Severity::kWarning,
                   fmt::format("several PyTorches are installed: {}", fmt::join(facts.torches, ", ")),
                   fmt::format("keep one: {} -m pip uninstall torch removes the first (conda remove pytorch, if conda "
                               "installed it); PYTHONNOUSERSITE=1 leaves those below ~/.local out",
                               facts.program));
  return finding;
}

// "GLIBCXX_3.4.30" of the loader's message; empty: it is about something else.
std::string missing_symbols(const std::string& error) {
  for (const std::string_view name : {"GLIBCXX_", "CXXABI_"})
    if (const auto at = error.find(name); at != std::string::npos)
      return error.substr(at, std::min<std::size_t>(error.find_first_of("' `\n", at), at + 32) - at);
  return {};
}

// The first GCC whose libstdc++ has "GLIBCXX_3.4.32" or "CXXABI_1.3.15"; 12 where an older one has it too.
int first_gcc(std::string_view symbol) {
  const auto number = static_cast<int>(
      std::clamp<std::int64_t>(parse_integer(symbol.substr(symbol.rfind('.') + 1)).value_or(0), 0, 99));
  if (symbol.starts_with("CXXABI_1.3.")) return std::clamp(number - 1, 12, 16);
  if (!symbol.starts_with("GLIBCXX_3.4.") || number <= 30) return 12;
  return number <= 32 ? 13 : std::min(number - 19, 16);
}

Finding check_libstdcxx(const PythonFacts& facts) {
  Finding finding{.id = "python.libstdcxx",
                  .what = facts.libstdcxx.empty() ? "" : fmt::format("one libstdc++: {}", facts.libstdcxx.front()),
                  .why =
                      "an environment of conda brings its own libstdc++; the first that a process loads serves all "
                      "libraries, and one that is too old for one of them stops it"};
  const std::string missing = missing_symbols(facts.xoe_error + "\n" + facts.torch_error);
  finding.details = {{"files", facts.libstdcxx}, {"missing", missing}, {"LD_LIBRARY_PATH", facts.libraries}};
  const std::string remedy = fmt::format(
      "in the environment of conda: conda install -c conda-forge 'libstdcxx-ng>={}'; elsewhere take older ones off "
      "LD_LIBRARY_PATH{} and LD_PRELOAD",
      first_gcc(missing), facts.libraries.empty() ? "" : " (" + facts.libraries + ")");
  if (!missing.empty())
    finding.report(Severity::kProblem,
                   fmt::format("a library needs {}, which the libstdc++ that is found first does not have", missing),
                   remedy);
  else if (facts.libstdcxx.size() > 1)
    finding.report(Severity::kWarning,
                   fmt::format("the process has several libstdc++: {}", fmt::join(facts.libstdcxx, ", ")), remedy);
  return finding;
}

// A Python that takes its own files from a folder of another does not start at all.
std::string unset_first(const PythonFacts& facts) {
  std::string set;
  std::string names;
  for (const auto& [name, value] : {std::pair("PYTHONHOME", facts.home), std::pair("PYTHONPATH", facts.path)}) {
    if (value.empty()) continue;
    set += fmt::format("{}{}={}", set.empty() ? "" : " and ", name, value);
    names += fmt::format(" {}", name);
  }
  return set.empty() ? "" : fmt::format("{} may keep Python from starting: unset{}; then ", set, names);
}

}  // namespace

Findings check_python(const PythonFacts& facts, const std::string& version, const std::string& program) {
  Finding none{.id = "python.package", .what = {}, .why = "Python programs import xoe, and xoe.torch"};
  if (!facts.tried)
    none.report(Severity::kSkipped, "Python not tried: this is a recorded tree");
  else if (facts.program.empty())
    none.report(Severity::kNote, "there is no python3 in PATH", "for Python programs: install Python 3.10 or later");
  else if (!facts.error.empty())
    none.report(Severity::kWarning, fmt::format("{} does not say what it has: {}", facts.program, facts.error),
                fmt::format("{}run {} -c 'import xoe, torch'", unset_first(facts), facts.program));
  if (!none.what.empty()) return {none};
  Findings findings = {check_package(facts, version, program), check_torch(facts)};
  if (!facts.xoe.empty() && !facts.torch.empty()) findings.push_back(check_registration(facts));
  if (!facts.prefix.empty()) findings.push_back(check_interpreter(facts));
  if (!facts.torches.empty()) findings.push_back(check_torches(facts));
  const Finding libstdcxx = check_libstdcxx(facts);
  if (!libstdcxx.what.empty()) findings.push_back(libstdcxx);
  return findings;
}

}  // namespace xoe::doctor
