// The device that computes.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <string_view>

#include "train/trainer/options.h"
#include "xoe/status.h"

namespace xoe::train {

// The version of libtorch: "2.15.0".
std::string_view libtorch_version() noexcept;

// Loads libtorch's CUDA libraries when this machine has a GPU and they are complete; otherwise does nothing. To be
// called before any other query of libtorch about CUDA.
void load_cuda();

// kAuto chooses CUDA when libtorch sees a device. The ranks of a host use its devices in turn. `unavailable` when CUDA
// was requested and there is none.
Result<c10::Device> choose_device(DeviceKind kind, int local_rank);

// libtorch's threads in this process; 0: OMP_NUM_THREADS, else an equal part of the cores that this process may use.
// Returns the number.
int set_threads(int threads, int local_size);

// What decides the bits of a computation on this processor: "AVX2, 1 thread, Some Processor".
std::string processor_text();

// Ok, or `unsupported`: libtorch cannot train in this precision on the device. Tries it, with a small convolution.
Status check_precision(c10::Device device, Precision precision);

// In its scope matrix products and convolutions run in 16 bits where that is safe.
class Autocast {
 public:
  Autocast(c10::Device device, Precision precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::Device device_;
  bool active_;
};

}  // namespace xoe::train
