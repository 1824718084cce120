#include "launch/doctor/checks/compute.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/remote/ask_program.h"
#include "launch/remote/program.h"
#include "launch/remote/spawn.h"

namespace xoe::doctor {

namespace {

// A device is slow below this part of the fastest one with the same name.
constexpr double kSlow = 0.8;

// A line for what there is, then one for each product. Small whole numbers, so that products in float32 are exact. They
// are checked as R. Freivalds did (1977), with exact numbers: C x = A (B x) for eight random x, which a wrong row
// passes once in 10^26 times. 16-bit products are those of float32, rounded.
constexpr const char* kProgram = R"(
import json, sys, time
sys.path[:] = [folder for folder in sys.path if folder]  # not the folder in which the doctor was called
def tell(**facts):
    print(json.dumps(facts), flush=True)
try:
    import torch
    devices = ["cpu"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]
except BaseException as error:
    tell(error=f"{type(error).__name__}: {error}")
    sys.exit()
tell(torch=str(torch.__version__), devices=devices)
torch.manual_seed(1)
for device in devices:
    on_gpu = device != "cpu"
    wait = torch.cuda.synchronize if on_gpu else (lambda: None)
    size = 4096 if on_gpu else 1024
    facts = {"device": device, "name": "", "size": size}
    a, b = (torch.randint(-3, 4, (size, size)) for _ in range(2))
    x = torch.randint(-1000, 1001, (size, 8)).double()
    for kind in ("float32", "bfloat16"):
        try:
            if on_gpu:
                torch.cuda.set_device(device)
                facts["name"] = torch.cuda.get_device_name(device)
            left, right = (m.to(device, getattr(torch, kind)) for m in (a, b))
            product = left @ right
            wait()
            began, count = time.monotonic(), 0
            while time.monotonic() < began + 1:
                for _ in range(8 if on_gpu else 1):
                    product = left @ right
                wait()
                count += 8 if on_gpu else 1
            seconds = (time.monotonic() - began) / count
            if kind == "float32":
                whole = product.double().cpu()
                wrong = (whole @ x != a.double() @ (b.double() @ x)).any(1).sum()
            else:
                wrong = ((product.double().cpu() - whole).abs() > whole.abs() / 128).sum()
            tell(**facts, type=kind, wrong=int(wrong), gflops=2e-9 * size**3 / seconds)
        except BaseException as error:
            tell(**facts, type=kind, error=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
)";

std::string speed_text(double gflops) {
  return gflops < 1000 ? fmt::format("{:.0f} GFLOP/s", gflops) : fmt::format("{:.1f} TFLOP/s", gflops / 1000);
}

std::string product_text(const Product& product) {
  if (!product.error.empty()) return fmt::format("{} failed", product.type);
  if (product.wrong > 0) return fmt::format("{} WRONG", product.type);
  return fmt::format("{} right, {}", product.type, speed_text(product.gflops));
}

// The fastest of the devices with its name, in its type.
double best_of(const ComputeFacts& facts, const Product& like) {
  double best = 0;
  for (const Product& product : facts.products)
    if (product.name == like.name && product.type == like.type) best = std::max(best, product.gflops);
  return best;
}

Finding check_device(const ComputeFacts& facts, const std::string& device) {
  Finding finding{.id = "compute." + device,
                  .what = {},
                  .why = "all ranks wait for the slowest device, and a faulty one spoils the weights of all"};
  std::vector<std::string> texts;
  std::string name = device;
  for (const Product& product : facts.products) {
    if (product.device != device) continue;
    if (!product.name.empty()) name = fmt::format("{} ({})", device, product.name);
    texts.push_back(product_text(product));
    finding.details[product.type] = {
        {"size", product.size}, {"wrong", product.wrong}, {"gflops", product.gflops}, {"error", product.error}};
    const double best = best_of(facts, product);
    if (!product.error.empty()) {
      texts.back() += ": " + product.error;
      finding.advise(Severity::kProblem,
                     "look for other programs on the device, and at its driver's messages in dmesg");
    } else if (product.wrong > 0) {
      finding.advise(Severity::kProblem, "take the device out of use: its arithmetic or its memory is faulty");
    } else if (product.gflops < kSlow * best && finding.severity == Severity::kOk) {
      texts.back() += fmt::format(" ({:.0f} % of the fastest of its kind)", 100 * product.gflops / best);
      finding.advise(Severity::kWarning, "look for other programs on it, its temperature, and its power limit");
    }
  }
  if (texts.empty()) {
    finding.report(Severity::kProblem, fmt::format("{} gave no product: {}", device, facts.error),
                   fmt::format("run {} -c 'import torch; print(torch.ones(9, 9, device=\"{}\") @ torch.ones(9, 9, "
                               "device=\"{}\"))'",
                               facts.program, device, device));
    return finding;
  }
  finding.what = fmt::format("{}: ", name);
  for (const std::string& text : texts) finding.what += (&text == texts.data() ? "" : "; ") + text;
  return finding;
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Product, device, name, type, size, wrong, gflops, error)

ComputeFacts ask_compute(const Env& env, std::chrono::milliseconds timeout) {
  ComputeFacts facts;
  const auto program = remote::find_program("python3", env);
  if (!program) return facts;
  facts.program = *program;
  const auto answer = remote::ask_program({*program, "-c", kProgram}, remote::Inherited::current(), timeout);
  if (!answer) {
    facts.error = answer.error().message();
    return facts;
  }
  for (const std::string& line : split_text(answer->out, '\n')) {
    const auto json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    try {
      if (json.contains("device")) {
        facts.products.push_back(json.get<Product>());
      } else {
        facts.torch = json.value("torch", "");
        facts.devices = json.value("devices", facts.devices);
        facts.error = json.value("error", "");
      }
    } catch (const Json::exception&) {  // a line of a library's
      continue;
    }
  }
  if (!answer->in_time) {
    facts.error = fmt::format("no answer within {} s", timeout.count() / 1000);
  } else if (answer->status != 0) {
    facts.error = fmt::format("Python {}", remote::describe_status(answer->status));
  }
  return facts;
}

Findings check_compute(const ComputeFacts& facts) {
  if (facts.program.empty() || facts.devices.empty())
    return {{.id = "compute.python",
             .severity = Severity::kSkipped,
             .what = fmt::format("nothing to multiply with: {}",
                                 facts.program.empty() ? "there is no python3 in PATH" : facts.error),
             .why = "PyTorch multiplies the matrices",
             .fix = "call it where python3 has PyTorch"}};
  Findings findings;
  for (const std::string& device : facts.devices) findings.push_back(check_device(facts, device));
  return findings;
}

}  // namespace xoe::doctor
