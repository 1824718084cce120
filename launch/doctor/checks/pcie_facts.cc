#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "core/base/text.h"
#include "launch/doctor/checks/host.h"

namespace xoe::doctor {
namespace {

constexpr std::string_view kDevices = "/sys/bus/pci/devices/";
constexpr std::size_t kMaxDevices = 4096;
constexpr int kNvidia = 0x10de;
constexpr int kDisplay = 0x03;
constexpr int kNetwork = 0x02;

// "0x10de"; -1: no such thing.
int hex_number(std::string_view text) {
  int value = -1;
  if (text.starts_with("0x")) std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  return value;
}

// "0x00000000fb000000"
std::optional<std::uint64_t> wide_hex_number(std::string_view text) {
  std::uint64_t value = 0;
  if (!text.starts_with("0x")) return std::nullopt;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + 2, end, value, 16);
  return read.ec == std::errc() && read.ptr == end ? std::optional(value) : std::nullopt;
}

// A line "START END FLAGS" of linux/ioport.h; one of zeros stands for a range that is not there.
struct ResourceLine {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t flags = 0;
};

std::optional<ResourceLine> parse_resource_line(std::string_view line) {
  const auto words = words_of(line);
  if (words.size() != 3) return std::nullopt;
  const auto start = wide_hex_number(words[0]);
  const auto end = wide_hex_number(words[1]);
  const auto flags = wide_hex_number(words[2]);
  if (!start || !end || !flags) return std::nullopt;
  return ResourceLine{*start, *end, *flags};
}

// "../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0" from pci0000:3a on.
std::vector<std::string> path_of(const Tree& tree, const std::string& address) {
  std::vector<std::string> path;
  for (std::string& part : split_text(tree.full_target(std::string(kDevices) + address).value_or(""), '/'))
    if (!path.empty() || part.starts_with("pci")) path.push_back(std::move(part));
  if (path.empty()) path.push_back(address);
  return path;
}

void read_config(const Tree& tree, PciFunction& function) {
  const auto bytes = tree.bytes(std::string(kDevices) + function.address + "/config", 4096);
  if (!bytes) {
    function.config_error = "its configuration space cannot be read";
    return;
  }
  auto config = parse_pci_config({reinterpret_cast<const std::uint8_t*>(bytes->data()), bytes->size()});
  if (config)
    function.config = *config;
  else
    function.config_error = config.error().message();
}

// The first six lines of the file are the function's own ranges; its ROM and others follow.
void read_ranges(const Tree& tree, PciFunction& function) {
  constexpr std::uint64_t kMemory = 0x200;
  constexpr std::uint64_t kUnset = 0x20000000;
  constexpr int kOwn = 6;
  const auto lines = lines_of(tree.text(std::string(kDevices) + function.address + "/resource").value_or(""));
  if (std::ssize(lines) < kOwn) return;
  std::vector<PciRange> ranges;
  for (int number = 0; number < kOwn; ++number) {
    const auto line = parse_resource_line(lines[static_cast<std::size_t>(number)]);
    if (!line) return;
    if ((line->flags & kMemory) != 0 && line->end > line->start)
      ranges.push_back({.number = number,
                        .bytes = line->end - line->start + 1,
                        .assigned = line->start != 0 && (line->flags & kUnset) == 0});
  }
  function.ranges = std::move(ranges);
  function.ranges_known = true;
}

PciFunction read_function(const Tree& tree, const std::string& address) {
  const std::string folder = std::string(kDevices) + address + "/";
  return {.address = address,
          .vendor = hex_number(tree.line(folder + "vendor")),
          .device_class = hex_number(tree.line(folder + "class")),
          .path = path_of(tree, address),
          .numa_node = static_cast<int>(tree.number(folder + "numa_node").value_or(-1))};
}

bool is_gpu(const PciFunction& function) {
  return function.vendor == kNvidia && (function.device_class >> 16) == kDisplay;
}

std::string iommu_type(const Tree& tree, const PciFunction& function) {
  const auto group = tree.target(std::string(kDevices) + function.address + "/iommu_group");
  return group ? tree.line("/sys/kernel/iommu_groups/" + *group + "/type") : "";
}

}  // namespace

PcieFacts read_pcie(const Tree& tree, const Virtualization& machine) {
  PcieFacts facts{.iommu = !tree.names("/sys/class/iommu").empty(),
                  .virtual_machine = machine.virtual_machine,
                  .hypervisor = machine.hypervisor,
                  .efi = tree.has("/sys/firmware/efi")};
  std::set<std::string> rdma;
  for (const std::string& device : tree.names("/sys/class/infiniband"))
    rdma.insert(tree.target("/sys/class/infiniband/" + device + "/device").value_or(""));
  auto addresses = tree.names(kDevices);
  addresses.resize(std::min(addresses.size(), kMaxDevices));
  std::set<std::string> above;
  for (const std::string& address : addresses) {
    PciFunction function = read_function(tree, address);
    const bool gpu = is_gpu(function);
    if (!gpu && !(rdma.contains(address) && (function.device_class >> 16) == kNetwork)) continue;
    read_config(tree, function);
    read_ranges(tree, function);
    above.insert(function.path.begin(), function.path.end() - 1);
    (gpu ? facts.gpus : facts.cards).push_back(std::move(function));
  }
  for (const std::string& address : addresses) {
    if (!above.contains(address)) continue;
    PciFunction bridge = read_function(tree, address);
    read_config(tree, bridge);
    facts.bridges.push_back(std::move(bridge));
  }
  for (const auto* list : {&facts.gpus, &facts.cards})
    if (!list->empty() && facts.iommu_type.empty()) facts.iommu_type = iommu_type(tree, list->front());
  return facts;
}

}  // namespace xoe::doctor
