#include "launch/doctor/checks/host.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/text.h"

namespace xoe::doctor {
namespace {

std::vector<const PciFunction*> all_cards(const PcieFacts& facts) {
  std::vector<const PciFunction*> all;
  for (const auto* list : {&facts.gpus, &facts.cards})
    for (const PciFunction& function : *list) all.push_back(&function);
  return all;
}

// Bridges that send requests of one card up to the root instead of straight to another card below.
Finding check_access_control(const PcieFacts& facts) {
  Finding finding{
      .id = "pcie.acs",
      .what = "no bridge above GPUs and network cards redirects their traffic (ACS)",
      .why =
          "with ACS redirection a transfer between two cards goes up to the processor and back: slower, and "
          "NCCL then avoids direct transfers or they hang"};
  std::vector<std::string> redirecting;
  std::vector<std::string> unknown;
  std::string commands;
  Json list = Json::array();
  for (const PciFunction& bridge : facts.bridges) {
    if (!bridge.config || !bridge.config->extended) {
      unknown.push_back(bridge.address);
      continue;
    }
    const auto& control = bridge.config->access_control;
    const bool redirects = control && (control->redirects_requests() || control->redirects_completions());
    list.push_back({{"bridge", bridge.address},
                    {"acs", control.has_value()},
                    {"redirects", redirects},
                    {"control", control ? Json(control->control) : Json()}});
    if (!redirects) continue;
    redirecting.push_back(bridge.address);
    commands += fmt::format("{}setpci -s {} ECAP_ACS+6.w=0000", commands.empty() ? "" : "; ", bridge.address);
  }
  finding.details = {{"bridges", std::move(list)}, {"redirecting", redirecting}, {"unknown", unknown}};
  if (!redirecting.empty()) {
    finding.report(
        Severity::kWarning, fmt::format("ACS redirects traffic between cards at {}", fmt::join(redirecting, ", ")),
        facts.virtual_machine
            ? fmt::format("in the machine's settings allow transfers between cards; here as root until the next "
                          "boot: {}",
                          commands)
            : fmt::format("turn ACS or the IOMMU off in the firmware, or as root until the next boot: {}", commands));
  } else if (!unknown.empty()) {
    finding.report(Severity::kSkipped,
                   fmt::format("the extended configuration of {} cannot be read", fmt::join(unknown, ", ")),
                   "run xoe doctor as root; a virtual machine or container may hide it altogether");
  } else if (facts.bridges.empty()) {
    finding.report(facts.virtual_machine ? Severity::kNote : Severity::kOk,
                   "no bridge is visible above GPUs and network cards");
    if (facts.virtual_machine)
      finding.fix = "ask the administrator of the hypervisor whether transfers between cards are allowed";
  }
  return finding;
}

Finding check_translation(const PcieFacts& facts) {
  Finding finding{.id = "pcie.ats",
                  .what = "",
                  .why = "under an IOMMU, cards with address translation (ATS) may still talk to each other directly"};
  Json list = Json::array();
  std::vector<std::string> on;
  std::vector<std::string> off;
  std::vector<std::string> without;
  for (const PciFunction* card : all_cards(facts)) {
    if (!card->config || !card->config->extended) continue;
    const auto& ats = card->config->address_translation;
    list.push_back({{"card", card->address}, {"ats", ats.has_value()}, {"enabled", ats && ats->enabled}});
    (!ats ? without : ats->enabled ? on : off).push_back(card->address);
  }
  finding.details = {{"cards", list}};
  if (list.empty()) {
    finding.report(Severity::kSkipped, "the extended configuration of the cards cannot be read",
                   "run xoe doctor as root");
    return finding;
  }
  const auto listed = [](const auto& all) { return all.empty() ? "none" : fmt::format("{}", fmt::join(all, ", ")); };
  finding.what = fmt::format("ATS on: {}; off: {}; without: {}", listed(on), listed(off), listed(without));
  // Only where addresses are translated and not in a machine of its own.
  if (on.empty() && facts.virtual_machine && !facts.cards.empty()) {
    finding.advise(
        Severity::kNote,
        "for GPU memory over the network card: mlxconfig -d DEVICE set ATS_ENABLED=true on the host, then reboot it");
  }
  return finding;
}

Finding check_iommu(const PcieFacts& facts) {
  Finding finding{
      .id = "pcie.iommu",
      .what = facts.iommu ? fmt::format("an IOMMU is on{}",
                                        facts.iommu_type.empty() ? "" : " (groups of type " + facts.iommu_type + ")")
                          : "no IOMMU translates addresses",
      .why = "translated transfers between cards go through the processor's root complex"};
  finding.details = {{"iommu", facts.iommu}, {"type", facts.iommu_type}};
  if (facts.iommu && facts.iommu_type.starts_with("DMA")) {
    finding.advise(
        facts.virtual_machine ? Severity::kNote : Severity::kWarning,
        "boot with iommu=pt (Intel: intel_iommu=on iommu=pt), or turn it off where no machines are passed through");
  }
  return finding;
}

Finding check_links(const PcieFacts& facts) {
  Finding finding{.id = "pcie.links", .what = "", .why = "a card with half of its lanes has half of its bandwidth"};
  Json list = Json::array();
  std::string narrow;
  std::size_t known = 0;
  for (const PciFunction* card : all_cards(facts)) {
    if (!card->config_error.empty()) finding.table += fmt::format("{}: {}\n", card->address, card->config_error);
    if (!card->config || !card->config->express || card->config->express->width == 0) continue;
    const ExpressLink& link = *card->config->express;
    ++known;
    list.push_back({{"card", card->address},
                    {"generation", link.speed},
                    {"lanes", link.width},
                    {"most_generation", link.most_speed},
                    {"most_lanes", link.most_width}});
    if (link.width < link.most_width)
      narrow += fmt::format("{}{} has {} of {} lanes", narrow.empty() ? "" : ", ", card->address, link.width,
                            link.most_width);
  }
  finding.details = {{"links", std::move(list)}};
  if (!narrow.empty()) {
    finding.report(Severity::kWarning, narrow,
                   "reseat the card, in a slot with all lanes; a virtual machine may show wrong figures");
  } else if (known == 0) {
    finding.report(Severity::kSkipped, "no card tells its link", "run xoe doctor as root");
  } else {
    finding.what = fmt::format("{} card{} with all lanes", known, known == 1 ? "" : "s");
  }
  return finding;
}

// The range by which a GPU's own memory is reached, the largest: number 1, and of cards that have ranges of 64 bits
// alone (H100) number 2. Those of at most 32 MiB lead to its registers. nullptr: it has no other.
const PciRange* memory_range(const PciFunction& gpu) {
  constexpr std::uint64_t kRegisters = std::uint64_t{32} << 20;
  const auto largest = std::ranges::max_element(gpu.ranges, {}, &PciRange::bytes);
  return largest == gpu.ranges.end() || largest->bytes <= kRegisters ? nullptr : &*largest;
}

// The settings by which a machine has room for ranges of so many bytes; 0: the number is not known.
std::string room_for(const PcieFacts& facts, std::uint64_t bytes) {
  std::uint64_t gibibytes = 64;
  while (gibibytes <= bytes >> 30 && gibibytes < 1 << 20) gibibytes *= 2;
  const std::string_view known = bytes > 0 ? "" : " (or more: twice the memory of all GPUs)";
  if (!facts.virtual_machine)
    return "in the firmware's settings turn on Above 4G Decoding (memory mapped I/O above 4 GB), and boot by EFI";
  if (facts.hypervisor == "VMware")
    return fmt::format(
        "in the machine's settings: firmware = efi (the system must be installed again for it), "
        "pciPassthru.use64bitMMIO = TRUE, pciPassthru.64bitMMIOSizeGB = {}{}; on the host: memory mapped I/O above 4 "
        "GB",
        gibibytes, known);
  if (facts.hypervisor != "KVM")
    return "ask for a machine that is booted by EFI and has room for memory mapped I/O above 4 GB";
  return fmt::format(
      "boot the machine by EFI (OVMF), with -fw_cfg name=opt/ovmf/X-PciMmio64Mb,string={}{}; on the host: memory "
      "mapped I/O above 4 GB",
      gibibytes << 10, known);
}

Finding check_ranges(const PcieFacts& facts) {
  constexpr std::uint64_t kSmall = std::uint64_t{256} << 20;
  Finding finding{.id = "pcie.memory",
                  .what = "",
                  .why =
                      "a GPU whose memory has no addresses is not usable; network cards reach a GPU's memory only as "
                      "far as its addresses go"};
  Json list = Json::array();
  std::string without, small, sizes;
  std::uint64_t wanted = 0;
  bool all_sizes_known = true;
  std::size_t known = 0;
  for (const PciFunction& gpu : facts.gpus) {
    if (!gpu.ranges_known) continue;
    ++known;
    const PciRange* const range = memory_range(gpu);
    const bool assigned = range != nullptr && range->assigned;
    const std::uint64_t bytes = range != nullptr ? range->bytes : 0;
    list.push_back({{"gpu", gpu.address},
                    {"range", range != nullptr ? Json(range->number) : Json()},
                    {"bytes", bytes},
                    {"assigned", assigned}});
    all_sizes_known = all_sizes_known && range != nullptr;
    wanted += bytes;
    std::string& all = !assigned ? without : bytes <= kSmall ? small : sizes;
    all += fmt::format("{}{}{}", all.empty() ? "" : ", ", gpu.address,
                       bytes > 0 ? " (" + human_bytes(bytes) + ")" : std::string());
  }
  finding.details = {{"gpus", std::move(list)}, {"efi", facts.efi}};
  const std::string_view boot = facts.efi ? "EFI" : "a BIOS";
  if (known == 0) {
    finding.report(Severity::kSkipped, "the kernel does not show the GPUs' address ranges");
  } else if (!without.empty()) {
    finding.report(Severity::kProblem,
                   fmt::format("the machine, booted by {}, found no addresses for the memory of {}", boot, without),
                   room_for(facts, all_sizes_known ? wanted : 0));
  } else if (!small.empty()) {
    finding.report(Severity::kNote, fmt::format("only a window leads to the memory of {}", small),
                   "for transfers by the network card: turn on Resizable BAR in the firmware, or on data center cards "
                   "the mode for computing (NVIDIA's displaymodeselector); a vGPU has no more");
  } else {
    finding.what = fmt::format("the memory of all GPUs has addresses: {}", sizes);
  }
  return finding;
}

// The nearest point that two functions share.
std::string distance(const PciFunction& a, const PciFunction& b) {
  std::size_t common = 0;
  while (common < std::min(a.path.size(), b.path.size()) && a.path[common] == b.path[common]) ++common;
  if (common >= 2) return "one switch";
  if (common == 1) return "one root complex";
  return a.numa_node == b.numa_node ? "one processor" : "between processors";
}

Finding check_distances(const PcieFacts& facts) {
  Finding finding{.id = "pcie.distances",
                  .what = "",
                  .why =
                      "cards below one switch reach each other without the processor; choose for each GPU the network "
                      "card that is nearest"};
  Json list = Json::array();
  const auto cards = all_cards(facts);
  for (std::size_t i = 0; i < facts.gpus.size(); ++i) {
    for (std::size_t j = i + 1; j < cards.size(); ++j) {
      const std::string way = distance(facts.gpus[i], *cards[j]);
      list.push_back({{"gpu", facts.gpus[i].address}, {"card", cards[j]->address}, {"way", way}});
      finding.table += fmt::format("GPU {} - {} {}: {}\n", facts.gpus[i].address,
                                   j < facts.gpus.size() ? "GPU" : "network card", cards[j]->address, way);
    }
  }
  finding.what = fmt::format("{} of GPUs and network cards", counted(std::ssize(list), "pair"));
  finding.details = {{"pairs", std::move(list)}};
  return finding;
}

}  // namespace

Findings check_pcie(const PcieFacts& facts) {
  if (facts.gpus.empty() && facts.cards.empty())
    return {{.id = "pcie.cards",
             .what = "no NVIDIA GPU and no RDMA card on PCI",
             .why = "transfers between cards are of no concern here",
             .details = {{"gpus", 0}, {"network_cards", 0}}}};
  Findings findings = {{.id = "pcie.cards",
                        .what = fmt::format("{}, {}", counted(std::ssize(facts.gpus), "NVIDIA GPU"),
                                            counted(std::ssize(facts.cards), "RDMA card")),
                        .why = "they may exchange data without the processor",
                        .details = {{"gpus", facts.gpus.size()}, {"network_cards", facts.cards.size()}}}};
  append(findings, {check_access_control(facts), check_translation(facts), check_iommu(facts), check_links(facts)});
  if (!facts.gpus.empty()) findings.push_back(check_ranges(facts));
  if (facts.gpus.size() + facts.cards.size() > 1 && !facts.gpus.empty()) findings.push_back(check_distances(facts));
  return findings;
}

}  // namespace xoe::doctor
