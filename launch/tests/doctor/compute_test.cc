// Products of matrices: with pretended Pythons here, with a real PyTorch in
// frameworks/tests/python/doctor_compute_test.py.
#include "launch/doctor/checks/compute.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "core/testing/scratch.h"
#include "launch/tests/doctor/findings.h"

namespace xoe::doctor {
namespace {

using ::testing::HasSubstr;

// A `python3` that is this shell script.
class PretendedPython {
 public:
  explicit PretendedPython(const std::string& lines) {
    put_file(folder_.file("python3"), "#!/bin/sh\n" + lines);
    std::filesystem::permissions(folder_.file("python3"), std::filesystem::perms::owner_all);
  }
  ComputeFacts ask(std::chrono::milliseconds timeout = std::chrono::seconds(60)) const {
    const Setting path("PATH", (folder_.path() + ":/usr/bin:/bin").c_str());
    return ask_compute(Env::process(), timeout);
  }

 private:
  Scratch folder_;
};

Product product(const std::string& device, double gflops, std::int64_t wrong = 0) {
  return {.device = device, .name = "T4", .type = "float32", .size = 4096, .wrong = wrong, .gflops = gflops};
}

TEST(Compute, ASlowDeviceIsAWarningAndAWrongOneAProblem) {
  const ComputeFacts facts{.program = "/usr/bin/python3",
                           .torch = "2.15",
                           .devices = {"cpu", "cuda:0", "cuda:1", "cuda:2"},
                           .products = {{.device = "cpu", .type = "float32", .size = 1024, .gflops = 90},
                                        product("cuda:0", 8000),
                                        product("cuda:1", 6000),
                                        product("cuda:2", 8100, 3)}};
  const Findings findings = check_compute(facts);
  expect_states(findings, {{"compute.cpu", Severity::kOk},
                           {"compute.cuda:0", Severity::kOk},
                           {"compute.cuda:1", Severity::kWarning},
                           {"compute.cuda:2", Severity::kProblem}});
  EXPECT_THAT(find(findings, "compute.cpu").what, HasSubstr("cpu: float32 right, 90 GFLOP/s"));
  EXPECT_THAT(find(findings, "compute.cuda:1").what, HasSubstr("6.0 TFLOP/s (74 % of the fastest of its kind)"));
  EXPECT_THAT(find(findings, "compute.cuda:2").what, HasSubstr("float32 WRONG"));
  EXPECT_EQ(find(findings, "compute.cuda:2").details["float32"]["wrong"], 3);
}

TEST(Compute, ADeviceAtWhichPythonCrashesIsNamed) {
  const PretendedPython python(R"(echo '{"torch": "2.15", "devices": ["cpu", "cuda:0"]}'
echo 'a line of a library'
echo '{"device": "cpu", "type": "float32", "size": 1024, "gflops": 50.0}'
kill -SEGV $$
)");
  const Findings findings = check_compute(python.ask());
  expect_states(findings, {{"compute.cpu", Severity::kOk}, {"compute.cuda:0", Severity::kProblem}});
  EXPECT_THAT(find(findings, "compute.cuda:0").what, HasSubstr("killed by SIGSEGV"));
}

TEST(Compute, ADeviceThatHangsIsNamed) {
  const PretendedPython python("echo '{\"torch\": \"2.15\", \"devices\": [\"cpu\"]}'\nexec sleep 600\n");
  const Findings findings = check_compute(python.ask(std::chrono::seconds(1)));
  EXPECT_THAT(find(findings, "compute.cpu").what, HasSubstr("no answer within 1 s"));
}

TEST(Compute, WithoutPyTorchNothingIsTried) {
  const PretendedPython python("echo '{\"error\": \"ModuleNotFoundError: No module named torch\"}'\n");
  const Findings findings = check_compute(python.ask());
  expect_states(findings, {{"compute.python", Severity::kSkipped}});
  EXPECT_THAT(find(findings, "compute.python").what, HasSubstr("No module named torch"));
}

}  // namespace
}  // namespace xoe::doctor
