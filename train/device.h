// Where the numbers are computed.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "train/options.h"
#include "xoe/status.h"

namespace xoe::train {

// Loads libtorch's CUDA half when this machine has a GPU and the library is complete; quiet otherwise. Before anything
// else asks libtorch about CUDA.
void load_cuda();

// kAuto takes CUDA when libtorch sees a device. Ranks of a host take its devices in turn. `unavailable` when CUDA was
// asked for and there is none.
Result<c10::Device> choose_device(DeviceKind kind, int local_rank);

// libtorch's threads in this process; 0: OMP_NUM_THREADS, else an equal part of the cores that this process may use.
// Gives the number.
int set_threads(int threads, int local_size);

// While it lives, matrix products and convolutions run in bfloat16 where that is safe.
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
