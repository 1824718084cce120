// xoe pool vsphere list, agent: GPUs of a vCenter's hosts, for its virtual machines.
#include <sys/stat.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "core/base/utf8.h"
#include "pool/cli/held_signals.h"
#include "pool/cli/verbs.h"
#include "pool/server/host_reporter.h"
#include "pool/vsphere/agent.h"

namespace xoe::tools::pool {
namespace {

using xoe::printable_utf8;
using xoe::pool::VmAssignment;
namespace vsphere = xoe::pool::vsphere;

struct VsphereOptions {
  Connection connection = {};
  vsphere::HttpsOptions https = {};
  std::string user = {};
  std::string password_file = {};
  std::vector<std::string> vms = {};
  vsphere::Rules rules = {};
  Span interval = std::chrono::seconds(5);
  Span task_timeout = std::chrono::minutes(5);
  bool once = false;
};

void note(const std::string& what) { fmt::print(stderr, "xoe pool vsphere: {}\n", printable_utf8(what)); }
// A name of an inventory.
std::string shown_name(const Json& object) { return printable_utf8(object.at("name").get_ref<const std::string&>()); }

// "python-image=ann,@vision"
void add_users(vsphere::Rules& rules, const std::string& list) {
  const auto equals = list.find('=');
  const auto names = split_text(list.substr(equals == std::string::npos ? list.size() : equals + 1), ',');
  const bool named = std::ranges::none_of(names, [](const std::string& name) { return name.empty() || name == "@"; });
  if (equals == 0 || names.empty() || !named)
    throw CLI::ValidationError(fmt::format("--vm-users {}: expected VM=USER,@TEAM,...", list),
                               CLI::ExitCodes::ValidationError);
  if (!rules.users.emplace(list.substr(0, equals), names).second)
    throw CLI::ValidationError(fmt::format("--vm-users {}: this VM has a list already", list),
                               CLI::ExitCodes::ValidationError);
}

Result<std::string> read_password(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0)
    return failure(Code::kInvalidArgument, "--password-file {}: {}", path, errno_text(errno));
  if ((facts.st_mode & 077) != 0)
    return failure(Code::kInvalidArgument, "the password {} must be accessible to this user only: chmod 600 it", path);
  XOE_ASSIGN(const std::string text, read_text_file(path));
  return std::string(trimmed(text));
}

Result<vsphere::Vcenter> open_vcenter(const VsphereOptions& options, vsphere::Vcenter::Sleep sleep) {
  XOE_ASSIGN(std::string password, read_password(options.password_file));
  XOE_ASSIGN(auto transport, vsphere::https_transport(options.https));
  return vsphere::Vcenter::open(std::move(transport), {options.user, std::move(password)}, std::move(sleep));
}

Json json_of(const vsphere::Inventory& inventory) {
  Json json{{"hosts", Json::array()}, {"vms", Json::array()}};
  for (const vsphere::EsxiHost& host : inventory.hosts) {
    Json gpus = Json::array();
    for (const vsphere::HostGpu& gpu : host.gpus)
      gpus.push_back({{"pci", gpu.pci},
                      {"name", gpu.name},
                      {"memory", gpu.memory},
                      {"shared", gpu.shared},
                      {"enabled", gpu.enabled}});
    json["hosts"].push_back({{"name", host.name}, {"gpus", gpus}, {"vgpu_profiles", host.vgpu_profiles}});
  }
  for (const vsphere::VirtualMachine& vm : inventory.vms) {
    Json devices = Json::array();
    for (const vsphere::VmDevice& device : vm.devices)
      devices.push_back(device.profile.empty() ? device.pci : device.profile);
    std::string host;
    for (const vsphere::EsxiHost& each : inventory.hosts)
      if (each.object == vm.host) host = each.name;
    json["vms"].push_back({{"name", vm.name},
                           {"host", host},
                           {"running", vm.running},
                           {"reserved", vm.has_reserved},
                           {"devices", devices}});
  }
  return json;
}

std::string text_of(const Json& inventory) {
  std::string text;
  for (const Json& host : inventory.at("hosts")) {
    text += fmt::format("host {}\n", shown_name(host));
    for (const Json& gpu : host.at("gpus")) {
      const bool shared = gpu.at("shared").get<bool>();
      text += fmt::format("  {}  {}, {}, {}\n", gpu.at("pci").get<std::string>(), shown_name(gpu),
                          human_bytes(gpu.at("memory").get<std::uint64_t>()),
                          shared                          ? "for vGPUs"
                          : gpu.at("enabled").get<bool>() ? "for DirectPath I/O"
                                                          : "not enabled for DirectPath I/O");
    }
    const std::vector<std::string> profiles = host.at("vgpu_profiles");
    if (!profiles.empty()) text += fmt::format("  vGPU profiles: {}\n", fmt::join(profiles, ", "));
  }
  for (const Json& vm : inventory.at("vms")) {
    const std::vector<std::string> devices = vm.at("devices");
    text += fmt::format("VM {} on {}: {}{}{}\n", shown_name(vm), printable_utf8(vm.at("host").get<std::string>()),
                        vm.at("running").get<bool>() ? "on" : "off",
                        devices.empty() ? std::string() : fmt::format(", has {}", fmt::join(devices, ", ")),
                        vm.at("reserved").get<bool>() ? "" : ", not all of its memory is reserved");
  }
  return text;
}

int list(const VsphereOptions& options) {
  const HeldSignals held;
  auto vcenter = open_vcenter(options, [](Span) {});
  if (!vcenter) return fail(vcenter.error());
  const auto inventory = vcenter->look();
  if (!inventory) return fail(inventory.error());
  const Json json = json_of(*inventory);
  return print(options.connection.json ? xoe::pool::to_text(json) + "\n" : text_of(json));
}

// Reports to the pool and does what it answers. While a change takes its time, the last reports are sent again, so that
// the hosts stay online.
class Loop {
 public:
  Loop(const VsphereOptions& options, Client client) : options_(options), reporter_(std::move(client)) {}

  int run() {
    do {
      if (const int code = look(); code != 0) return code;
    } while (!options_.once && !ended_ && !sleep_until_signal(options_.interval));
    return 0;
  }

 private:
  // Not 0: the program ends with it. A vCenter or a pool that does not answer now may do so later.
  int look() {
    if (!connected_) {
      auto vcenter = open_vcenter(options_, [this](Span span) { wait(span); });
      if (!vcenter) return tell(vcenter.error());
      vcenter->set_task_timeout(options_.task_timeout);
      if (agent_)
        agent_->reconnect(std::move(*vcenter));
      else
        agent_.emplace(std::move(*vcenter), options_.rules);
      connected_ = true;
    }
    std::vector<VmAssignment> assignments;
    reported_ = false;
    if (const int code = observe_and_report(&assignments); code != 0) return code;
    if (!reported_) return 0;
    const auto refused = refused_;
    const auto log = agent_->apply(assignments, refused);
    for (const std::string& line : log) say_once(line);
    if (!log.empty())
      if (const int code = observe_and_report(nullptr); code != 0) return code;
    return options_.once && !refused.empty() ? kFailed : 0;
  }

  int observe_and_report(std::vector<VmAssignment>* assignments) {
    looked_ = std::chrono::steady_clock::now();
    auto reports = agent_->observe();
    if (!reports) {
      connected_ = false;
      return tell(reports.error());
    }
    reports_ = std::move(*reports);
    for (const std::string& warning : reports_.warnings) say_once(warning);
    return report(assignments);
  }

  int report(std::vector<VmAssignment>* assignments) {
    reported_ = false;
    auto round = reporter_.send(reports_.hosts, looked_);
    if (!round) return round.error().code() == Code::kUnavailable ? tell(round.error()) : fail(round.error());
    if (round->not_allowed) return fail(*round->not_allowed);
    refused_ = std::move(round->refused);
    for (const std::string& line : round->news) note(line);
    for (const auto& orders : round->orders)
      if (assignments != nullptr) assignments->insert(assignments->end(), orders.vms.begin(), orders.vms.end());
    reported_ = true;
    const auto taken = static_cast<std::int64_t>(reports_.hosts.size() - refused_.size());
    say_once(fmt::format("{} of the vCenter {}", counted(taken, "host"), taken == 1 ? "is reported" : "are reported"));
    return 0;
  }

  void wait(Span span) {
    ended_ |= sleep_until_signal(span);
    waited_ += span;
    if (waited_ < options_.interval) return;
    waited_ = Span(0);
    static_cast<void>(report(nullptr));
  }

  int tell(const Error& error) {
    if (options_.once || error.code() == Code::kInvalidArgument) return fail(error);
    say_once(error.message());
    return 0;
  }

  void say_once(const std::string& what) {
    if (said_.size() > 1000) said_.clear();
    if (said_.insert(what).second) note(what);
  }

  const VsphereOptions& options_;
  xoe::pool::HostReporter reporter_;
  std::optional<vsphere::Agent> agent_;
  vsphere::Reports reports_;
  std::set<std::string> said_;
  std::set<std::string> refused_;                // hosts whose reports the pool did not take
  xoe::pool::HostReporter::Moment looked_ = {};  // when the agent began the look of reports_
  Span waited_{0};
  bool connected_ = false;  // to the vCenter
  bool reported_ = false;
  bool ended_ = false;
};

int run_agent(VsphereOptions options) {
  const HeldSignals held;
  options.rules.vms = {options.vms.begin(), options.vms.end()};
  auto client = connect(options.connection, std::chrono::seconds(1));
  if (!client) return fail(client.error());
  return Loop(options, std::move(*client)).run();
}

void add_vcenter_options(CLI::App& verb, VsphereOptions& options) {
  verb.add_option("--vcenter", options.https.url, "its address: https://vcenter.example.org/sdk")
      ->type_name("URL")
      ->required();
  verb.add_option("--vcenter-user", options.user, "that may reconfigure the VMs")->type_name("NAME")->required();
  verb.add_option("--password-file", options.password_file, "its password, in a file of mode 0600")
      ->type_name("FILE")
      ->required();
  verb.add_option("--vcenter-ca", options.https.ca_file, "certificates to trust, if not the system's")
      ->type_name("FILE");
}

}  // namespace

void add_vsphere(CLI::App& app, int& code) {
  CLI::App* const verb = app.add_subcommand("vsphere", "GPUs of a vCenter's hosts, for its virtual machines");
  verb->require_subcommand(1);

  const auto of_list = std::make_shared<VsphereOptions>();
  CLI::App* const list_verb = verb->add_subcommand("list", "the hosts, their GPUs, and the VMs of a vCenter");
  add_vcenter_options(*list_verb, *of_list);
  list_verb->add_flag("--json", of_list->connection.json, "print one JSON object");
  list_verb->callback([of_list, &code] { code = list(*of_list); });

  const auto options = std::make_shared<VsphereOptions>();
  CLI::App* const agent =
      verb->add_subcommand("agent", "tell the pool of a vCenter, and give its VMs the GPUs of their leases");
  add_connection_options(*agent, options->connection);
  add_vcenter_options(*agent, *options);
  agent
      ->add_option_function<std::vector<std::string>>(
          "--vm-users",
          [options](const std::vector<std::string>& lists) {
            for (const std::string& list : lists) add_users(options->rules, list);
          },
          "who may have leases for a VM: python-image=ann,@vision; *=... for VMs that are not named; else every user")
      ->type_name("VM=USER,@TEAM...")
      ->allow_extra_args(false);
  CLI::Option* const only =
      agent->add_option("--only-vm", options->vms, "only these VMs; else all")->type_name("NAME...");
  agent->add_option("--vgpu-profile", options->rules.vgpu_profile, "that shared GPUs are cut by, such as grid_t4-8q")
      ->type_name("NAME");
  agent
      ->add_flag("--allow-power-cycle", options->rules.power_cycle,
                 "shut down VMs whose leases say so, and start them again: name them by --only-vm, and who may by "
                 "--vm-users")
      ->needs(only);
  add_span_option(*agent, "--shutdown-patience", options->rules.shutdown_timeout, "for a guest to shut down");
  add_span_option(*agent, "--task-patience", options->task_timeout, "for a task of vCenter");
  add_span_option(*agent, "--interval", options->interval, "between two looks");
  agent->add_flag("--once", options->once, "one look, then end");
  agent->callback([options, &code] { code = run_agent(*options); });
}

}  // namespace xoe::tools::pool
