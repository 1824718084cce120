// The mock of NVML within the process of a test.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "core/drivers/nvml/nvml.h"

namespace xoe::testing {

struct MockNvml {
  std::vector<std::vector<int>> processes;  // ids of those that compute, by GPU; empty: the environment decides
  std::atomic<int> sessions = 0;            // calls of init() without their shutdown()
};
MockNvml& mock_nvml();

std::string mock_gpu_uuid(unsigned index);
NvmlApi mock_nvml_api();

}  // namespace xoe::testing
