#include "launch/doctor/checks/host.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/text.h"
#include "launch/doctor/facts/addresses.h"

namespace xoe::doctor {
namespace {

// Values of /sys/class/net/*/type, of the kernel's if_arp.h.
constexpr std::int64_t kEthernet = 1;
constexpr std::int64_t kInfiniband = 32;
constexpr std::int64_t kLoopback = 772;
constexpr std::int64_t kMuchFaster = 2;

bool is_inner(const Tree& tree, const std::string& name) {
  static constexpr std::string_view kPrefixes[] = {"docker", "br-",    "virbr", "veth",  "cni", "flannel", "cali",
                                                   "vnet",   "podman", "lxc",   "kube-", "tap", "ifb",     "dummy"};
  if (std::ranges::any_of(kPrefixes, [&name](std::string_view prefix) { return name.starts_with(prefix); }))
    return true;
  // A bridge without a card in it.
  const std::string folder = "/sys/class/net/" + name + "/";
  if (!tree.has(folder + "bridge")) return false;
  const auto members = tree.names(folder + "brif");
  return std::ranges::none_of(members,
                              [&](const auto& name) { return tree.has("/sys/class/net/" + name + "/device"); });
}

std::string kind_of(std::optional<std::int64_t> type) {
  if (type == kLoopback) return "loopback";
  if (type == kInfiniband) return "infiniband";
  return type == kEthernet ? "ethernet" : "other";
}

NetworkInterface read_interface(const Tree& tree, const std::string& name) {
  const std::string folder = "/sys/class/net/" + name + "/";
  NetworkInterface card{.name = name,
                        .driver = tree.target(folder + "device/driver").value_or(""),
                        .kind = kind_of(tree.number(folder + "type"))};
  const std::string device = tree.target(folder + "device").value_or("");
  if (std::count(device.begin(), device.end(), ':') == 2) card.device = device;
  const std::string state = tree.line(folder + "operstate");
  // Tunnels and loopback have no state of their own.
  card.up = state == "up" || (state == "unknown" && tree.number(folder + "carrier") == 1);
  card.inner = card.kind != "loopback" && is_inner(tree, name);
  if (const auto speed = tree.number(folder + "speed"); speed && *speed > 0 && *speed < 10'000'000) card.mbit = speed;
  card.mtu = tree.number(folder + "mtu").value_or(0);
  if (card.kind == "infiniband") card.mode = tree.line(folder + "mode");
  card.numa_node = static_cast<int>(tree.number(folder + "device/numa_node").value_or(-1));
  return card;
}

std::vector<NetworkInterface> recorded_interfaces(const Tree& tree) {
  std::vector<NetworkInterface> interfaces;
  for (const std::string& name : tree.names("/sys/class/net"))
    // The folder of bonding has a plain file beside the interfaces.
    if (tree.has("/sys/class/net/" + name + "/type")) interfaces.push_back(read_interface(tree, name));
  return interfaces;
}

std::vector<NetworkInterface> live_interfaces(const Tree& tree) {
  std::vector<NetworkInterface> interfaces;
  for (const auto& [name, link] : live_links()) {
    interfaces.push_back(read_interface(tree, name));
    interfaces.back().up = link.up;
    if (link.loopback) interfaces.back().kind = "loopback";
  }
  return interfaces;
}

bool leaves_host(const NetworkInterface& card) {
  return card.up && card.kind != "loopback" && !card.inner && !card.addresses.empty();
}

std::string speed_text(const std::optional<std::int64_t>& mbit) {
  if (!mbit) return "speed unknown";
  return *mbit >= 1000 ? fmt::format("{:.4g} Gbit/s", static_cast<double>(*mbit) / 1000)
                       : fmt::format("{} Mbit/s", *mbit);
}

Json json_of(const NetworkInterface& card) {
  return {{"name", card.name},
          {"kind", card.kind},
          {"mode", card.mode},
          {"up", card.up},
          {"inner", card.inner},
          {"default_route", card.default_route},
          {"mbit_per_s", json_or_null(card.mbit)},
          {"mtu", card.mtu},
          {"driver", card.driver},
          {"pci", card.device},
          {"numa_node", card.numa_node},
          {"addresses", card.addresses}};
}

Finding check_interface(const NetworkInterface& card) {
  Finding finding{
      .id = "network." + card.name,
      .what = fmt::format("{}: {}, {}, MTU {}{}{}, {}", card.name, card.up ? "up" : "down", speed_text(card.mbit),
                          card.mtu > 0 ? fmt::format("{}", card.mtu) : "unknown",
                          card.driver.empty() ? "" : ", " + card.driver, card.inner ? ", inside this host" : "",
                          card.addresses.empty() ? "no address" : fmt::format("{}", fmt::join(card.addresses, " "))),
      .why = "gradients that leave the host go over an interface that is up and has an address",
      .details = json_of(card)};
  if (!card.up && !card.inner && !card.driver.empty()) {
    finding.advise(Severity::kNote,
                   fmt::format("if it should be used: plug in its cable, then ip link set {} up", card.name));
  } else if (card.up && !card.inner && card.kind != "loopback" && card.addresses.empty()) {
    finding.advise(
        Severity::kNote,
        fmt::format("if it should be used: give it an address (ip addr add ADDRESS/BITS dev {})", card.name));
  }
  return finding;
}

Finding check_choice(const std::vector<NetworkInterface>& interfaces) {
  Finding finding{.id = "network.tcp", .what = "", .why = "TCP between hosts takes one interface of each"};
  const NetworkInterface* const chosen = chosen_interface(interfaces);
  if (chosen == nullptr) {
    finding.report(Severity::kWarning, "there is only loopback: this host reaches no other");
    finding.why = "training on this one host works; several hosts need an interface that is up and has an address";
    finding.fix =
        "bring an interface up and give it an address (ip link, ip addr), or in a container use --network=host";
    finding.details = {{"interface", nullptr}};
    return finding;
  }
  finding.what = fmt::format("TCP between hosts would take {} ({}, {})", chosen->name, chosen->addresses.front(),
                             speed_text(chosen->mbit));
  finding.details = {{"interface", chosen->name}, {"address", chosen->addresses.front()}};
  const NetworkInterface* fastest = chosen;
  for (const NetworkInterface& card : interfaces)
    if (leaves_host(card) && card.mbit.value_or(0) > fastest->mbit.value_or(0)) fastest = &card;
  if (!chosen->mbit || *fastest->mbit < kMuchFaster * *chosen->mbit) return finding;
  finding.advise(Severity::kNote,
                 fmt::format("{} is faster ({}); where it reaches the other hosts: xoe run --network-interface {}",
                             fastest->name, speed_text(fastest->mbit), fastest->name));
  finding.details["faster"] = fastest->name;
  return finding;
}

}  // namespace

const NetworkInterface* chosen_interface(const std::vector<NetworkInterface>& interfaces) {
  const NetworkInterface* best = nullptr;
  for (const NetworkInterface& card : interfaces) {
    if (!leaves_host(card)) continue;
    const auto rank = [](const NetworkInterface& one) { return std::pair(one.default_route, one.mbit.value_or(0)); };
    if (best == nullptr || rank(card) > rank(*best)) best = &card;
  }
  return best;
}

std::vector<NetworkInterface> read_interfaces(const Tree& tree) {
  auto addresses = read_addresses(tree);
  std::vector<std::string> default_routes;
  for (const std::string& line : lines_of(tree.text("/proc/net/route").value_or(""))) {
    const auto words = words_of(line);
    if (words.size() >= 8 && words[1] == "00000000" && words[7] == "00000000") default_routes.push_back(words[0]);
  }
  std::vector<NetworkInterface> interfaces;
  for (NetworkInterface& card : tree.live() ? live_interfaces(tree) : recorded_interfaces(tree)) {
    card.addresses = std::move(addresses[card.name]);
    // Loopback has no cable.
    if (card.kind == "loopback") card.up = !card.addresses.empty();
    card.default_route = std::find(default_routes.begin(), default_routes.end(), card.name) != default_routes.end();
    interfaces.push_back(std::move(card));
  }
  return interfaces;
}

Findings check_ip_over_infiniband(const std::vector<NetworkInterface>& interfaces, const RdmaFacts& facts) {
  const NetworkInterface* const chosen = chosen_interface(interfaces);
  if (chosen == nullptr || chosen->kind != "infiniband") return {};
  Finding finding{.id = "network.ipoib",
                  .what = fmt::format("{} is IP over InfiniBand{}, MTU {}", chosen->name,
                                      chosen->mode.empty() ? "" : " in " + chosen->mode + " mode", chosen->mtu),
                  .why =
                      "TCP over an InfiniBand card costs the processor as much as over any other, and reaches a part "
                      "of the card's speed; MPI (UCX) and NCCL talk to the card itself",
                  .details = {{"interface", chosen->name}, {"mode", chosen->mode}, {"mtu", chosen->mtu}}};
  const bool open = !facts.verbs.empty() && std::ranges::any_of(facts.ports, &RdmaPort::active);
  finding.details["cards_open"] = open;
  if (open)
    finding.advise(Severity::kNote,
                   "with mpirun or srun ranks take MPI and with it the card; Gloo, which xoe run takes, goes over TCP");
  else
    finding.advise(Severity::kWarning,
                   "here MPI and NCCL fall back to it too, as no card can be opened: see the group rdma");
  if (chosen->mtu > 0 && chosen->mtu < 9000)
    finding.fix += fmt::format(
        "; for TCP larger packets, as root: echo connected > /sys/class/net/{0}/mode && ip link set {0} mtu 65520, on "
        "all hosts and where the driver has that mode",
        chosen->name);
  return {std::move(finding)};
}

Findings check_network(const std::vector<NetworkInterface>& interfaces) {
  Findings findings = {check_choice(interfaces)};
  for (const NetworkInterface& card : interfaces)
    if (card.kind != "loopback") findings.push_back(check_interface(card));
  return findings;
}

}  // namespace xoe::doctor
