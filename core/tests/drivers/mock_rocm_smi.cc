// A mock of librocm_smi64.so: two MI210 with an XGMI link, of which the first is used.
//   XOE_MOCK_ROCM=none: no GPU; many: 70; old: it does not start; unlisted: it does not tell which GPUs a process uses;
//   nameless: the second GPU has no unique id
//   XOE_MOCK_ROCM_PID: the process that uses the first GPU
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/drivers/rocm/rocm_smi.h"

namespace {

using xoe::RocmProcess;
using xoe::RocmResult;

constexpr RocmResult kGood = RocmResult::kSuccess;
constexpr RocmResult kInvalid{1};
constexpr RocmResult kNotFound{8};

std::string setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::uint32_t count() {
  const std::string gpus = setting("XOE_MOCK_ROCM");
  return gpus == "many" ? 70 : gpus == "none" ? 0 : 2;
}
std::uint32_t pid() { return static_cast<std::uint32_t>(std::atoi(setting("XOE_MOCK_ROCM_PID").c_str())); }

template <class Value>
RocmResult tell(std::uint32_t device, Value* to, Value value) {
  if (device >= count()) return kInvalid;
  *to = value;
  return kGood;
}

}  // namespace

extern "C" {
RocmResult rsmi_init(std::uint64_t) { return setting("XOE_MOCK_ROCM") == "old" ? kInvalid : kGood; }
RocmResult rsmi_shut_down() { return kGood; }
RocmResult rsmi_num_monitor_devices(std::uint32_t* number) {
  *number = count();
  return kGood;
}
RocmResult rsmi_dev_name_get(std::uint32_t device, char* text, std::size_t size) {
  if (device >= count()) return kInvalid;
  std::strncpy(text, "AMD Instinct MI210", size);
  return kGood;
}
RocmResult rsmi_dev_unique_id_get(std::uint32_t device, std::uint64_t* id) {
  return tell(device, id, device == 1 && setting("XOE_MOCK_ROCM") == "nameless" ? 0 : std::uint64_t{0xabc0} + device);
}
RocmResult rsmi_dev_pci_id_get(std::uint32_t device, std::uint64_t* id) {
  return tell(device, id, std::uint64_t{0x4300} + (device << 8));
}
RocmResult rsmi_dev_memory_total_get(std::uint32_t device, int, std::uint64_t* bytes) {
  return tell(device, bytes, std::uint64_t{64} << 30);
}
RocmResult rsmi_dev_memory_usage_get(std::uint32_t device, int, std::uint64_t* bytes) {
  return tell(device, bytes, std::uint64_t{1} << (device == 0 && pid() != 0 ? 33 : 20));
}
RocmResult rsmi_dev_busy_percent_get(std::uint32_t device, std::uint32_t* percent) {
  return tell(device, percent, device == 0 && pid() != 0 ? 87U : 0U);
}
RocmResult rsmi_dev_temp_metric_get(std::uint32_t device, std::uint32_t, int, std::int64_t* millidegrees) {
  return tell(device, millidegrees, std::int64_t{41500});
}
RocmResult rsmi_compute_process_info_get(RocmProcess* list, std::uint32_t* number) {
  if (list != nullptr && *number > 0 && pid() != 0)
    *list = {.pid = pid(), .address_space = 1, .memory = 1 << 30, .dma = 0, .occupancy = 5};
  *number = pid() == 0 ? 0 : 1;
  return kGood;
}
RocmResult rsmi_compute_process_gpus_get(std::uint32_t process, std::uint32_t* devices, std::uint32_t* number) {
  if (process != pid() || setting("XOE_MOCK_ROCM") == "unlisted") return kNotFound;
  devices[0] = 0;
  *number = 1;
  return kGood;
}
RocmResult rsmi_topo_get_link_type(std::uint32_t from, std::uint32_t to, std::uint64_t* hops, std::uint32_t* type) {
  *hops = 1;
  return from < count() ? tell(to, type, 2U) : kInvalid;
}
}
