#include "train/trainer/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <sched.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/command_line/machine_facts.h"

namespace xoe::train {

std::string_view libtorch_version() noexcept { return TORCH_VERSION; }

void load_cuda() {
  // Without an NVIDIA device, loading the library would cost a second in vain.
  if (::access("/dev/nvidiactl", F_OK) == 0) ::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
}

Result<c10::Device> choose_device(DeviceKind kind, int local_rank) {
  if (kind == DeviceKind::kCpu) return c10::Device(c10::kCPU);
  if (!at::hasCUDA()) {
    if (kind == DeviceKind::kAuto) return c10::Device(c10::kCPU);
    return failure(Code::kUnavailable, "libtorch sees no CUDA device here; try --device cpu");
  }
  at::globalContext().setBenchmarkCuDNN(true);  // the shapes are the same in every step
  const int devices = at::detail::getCUDAHooks().deviceCount();
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(local_rank % std::max(1, devices)));
}

int set_threads(int threads, int local_size) {
  if (threads == 0 && Env::process().has("OMP_NUM_THREADS")) return at::get_num_threads();
  if (threads == 0) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    const int cores = ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    threads = std::max(1, cores / local_size);
  }
  at::set_num_threads(threads);
  return threads;
}

std::string processor_text() {
  return fmt::format("{}, {}, {}", at::get_cpu_capability(), counted(at::get_num_threads(), "thread"),
                     command_line::machine_facts().processor);
}

Status check_precision(c10::Device device, Precision precision) {
  if (precision != Precision::kFp16 || !device.is_cpu()) return {};
  try {
    const at::AutoGradMode for_backward(true);
    const at::Tensor weight = at::ones({8, 8, 3, 3}).set_requires_grad(true);
    at::Tensor sum;
    {
      const Autocast autocast(device, precision);
      sum = at::conv2d(at::ones({1, 8, 8, 8}), weight).sum();
    }
    sum.backward();
    return {};
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return failure(Code::kUnsupported, "--precision fp16: libtorch cannot train in float16 on this CPU ({}); try bf16",
                   text.substr(0, text.find('\n')));
  }
}

Autocast::Autocast(c10::Device device, Precision precision) : device_(device), active_(precision != Precision::kFp32) {
  if (!active_) return;
  at::autocast::set_autocast_dtype(device_.type(), precision == Precision::kFp16 ? at::kHalf : at::kBFloat16);
  at::autocast::set_autocast_enabled(device_.type(), true);
}

Autocast::~Autocast() {
  if (!active_) return;
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_.type(), false);
}

}  // namespace xoe::train
