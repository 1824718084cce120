#include "pool/vsphere/vcenter.h"

#include <algorithm>

#include "core/base/error.h"

namespace xoe::pool::vsphere {
namespace {

constexpr std::size_t kMaxObjects = 100'000;
constexpr Span kPause = std::chrono::milliseconds(500);

const Reference kServiceInstance = {"ServiceInstance", "ServiceInstance"};

std::string paths(std::string_view type, std::initializer_list<std::string_view> names) {
  std::string spec = element("type", type);
  for (const std::string_view name : names) spec += element("pathSet", name);
  return fmt::format("<propSet>{}</propSet>", spec);
}

std::string device_change(std::string_view operation, int key, std::string_view backing) {
  return fmt::format(
      R"(<deviceChange><operation>{}</operation><device xsi:type="VirtualPCIPassthrough"><key>{}</key>{}</device>)"
      R"(</deviceChange>)",
      operation, key, backing);
}

Error refused(std::string_view method, const Fault& fault) {
  return {Code::kResourceExhausted, fmt::format("vCenter refuses {}: {}", method, fault_text(fault))};
}

}  // namespace

Result<Vcenter> Vcenter::open(std::unique_ptr<Transport> transport, Credentials credentials, Sleep sleep) {
  Vcenter vcenter(std::move(transport), std::move(credentials), std::move(sleep));
  XOE_ASSIGN(const Answer answer, vcenter.send(request("RetrieveServiceContent", kServiceInstance)));
  if (answer.fault) return failure(refused("RetrieveServiceContent", *answer.fault));
  for (const auto& [member, name] : {std::pair(&Vcenter::properties_, "propertyCollector"),
                                     {&Vcenter::views_, "viewManager"},
                                     {&Vcenter::root_, "rootFolder"},
                                     {&Vcenter::sessions_, "sessionManager"}}) {
    const Element* const found = answer.body.at(std::string("returnval/") + name);
    if (found == nullptr) return failure(Code::kUnsupported, "vCenter does not name its {}", name);
    vcenter.*member = reference_of(*found);
  }
  XOE_TRY(vcenter.log_in());
  return vcenter;
}

Result<Answer> Vcenter::send(const std::string& request) {
  XOE_ASSIGN(const std::string xml, transport_->post(request));
  return parse_answer(xml);
}

Status Vcenter::log_in() {
  XOE_ASSIGN(const Answer answer,
             send(request("Login", sessions_,
                          element("userName", credentials_.user) + element("password", credentials_.password))));
  if (answer.fault)
    return failure(Code::kInvalidArgument, "vCenter refuses to log in {}: {}", credentials_.user,
                   fault_text(*answer.fault));
  return {};
}

Vcenter::~Vcenter() {
  if (transport_ != nullptr && !sessions_.id.empty()) static_cast<void>(send(request("Logout", sessions_)));
}

Result<Element> Vcenter::call(std::string_view method, const Reference& object, const std::string& arguments) {
  const std::string message = request(method, object, arguments);
  XOE_ASSIGN(Answer answer, send(message));
  if (answer.fault && answer.fault->kind == "NotAuthenticated") {  // the session has expired; nothing was done
    transport_->forget_session();
    XOE_TRY(log_in());
    XOE_ASSIGN(answer, send(message));
  }
  if (answer.fault) return failure(refused(method, *answer.fault));
  return std::move(answer.body);
}

Result<std::vector<Element>> Vcenter::retrieve(const std::string& spec) {
  std::vector<Element> objects;
  XOE_ASSIGN(Element answer,
             call("RetrievePropertiesEx", properties_, fmt::format("<specSet>{}</specSet><options></options>", spec)));
  for (;;) {
    Element* result = nullptr;
    for (Element& each : answer.children)
      if (each.name == "returnval") result = &each;
    if (result == nullptr) return objects;  // nothing is selected
    for (Element& each : result->children)
      if (each.name == "objects") objects.push_back(std::move(each));
    if (objects.size() > kMaxObjects)
      return failure(Code::kDataLoss, "vCenter lists more than {} objects", kMaxObjects);
    const std::string token = result->text_at("token");
    if (token.empty()) return objects;
    XOE_ASSIGN(answer, call("ContinueRetrievePropertiesEx", properties_, element("token", token)));
  }
}

Result<Element> Vcenter::property(const Reference& object, std::string_view path) {
  XOE_ASSIGN(const auto objects,
             retrieve(paths(object.type, {path}) + fmt::format("<objectSet>{}</objectSet>", element("obj", object))));
  const Element* const value = objects.empty() ? nullptr : objects.front().at("propSet/val");
  if (value == nullptr) return failure(Code::kResourceExhausted, "vCenter has no {} of {}", path, object.id);
  return *value;
}

Result<Inventory> Vcenter::look() {
  XOE_ASSIGN(const Element made,
             call("CreateContainerView", views_,
                  element("container", root_) + element("type", std::string_view("HostSystem")) +
                      element("type", std::string_view("VirtualMachine")) + element("recursive", true)));
  const Element* const view = made.child("returnval");
  if (view == nullptr) return failure(Code::kDataLoss, "vCenter made no view of its hosts and VMs");
  const std::string spec =
      paths("HostSystem", {"name", "hardware.pciDevice", "config.pciPassthruInfo", "config.graphicsInfo",
                           "config.sharedPassthruGpuTypes"}) +
      paths("VirtualMachine",
            {"name", "runtime.host", "runtime.powerState", "config.template", "config.hardware.memoryMB",
             "config.memoryAllocation.reservation", "config.memoryReservationLockedToMax", "config.hardware.device"}) +
      fmt::format(R"(<objectSet>{}<skip>true</skip><selectSet xsi:type="TraversalSpec"><name>view</name>)"
                  R"(<type>ContainerView</type><path>view</path><skip>false</skip></selectSet></objectSet>)",
                  element("obj", reference_of(*view)));
  const auto objects = retrieve(spec);
  const auto destroyed = call("DestroyView", reference_of(*view));
  if (!objects) return failure(objects.error());
  if (!destroyed) return failure(destroyed.error());
  return inventory_of(*objects);
}

Status Vcenter::run_task(std::string_view method, const VirtualMachine& vm, const std::string& arguments) {
  XOE_ASSIGN(const Element started, call(method, vm.object, arguments));
  const Element* const task = started.child("returnval");
  if (task == nullptr) return failure(Code::kDataLoss, "{} of VM {}: vCenter names no task", method, vm.name);
  for (Span waited{0};; waited += kPause) {
    XOE_ASSIGN(const Element info, property(reference_of(*task), "info"));
    const std::string state = info.text_at("state");
    if (state == "success") return {};
    if (state == "error") {
      const Element* const fault = info.at("error/fault");
      return failure(refused(fmt::format("{} of VM {}", method, vm.name),
                             {fault == nullptr ? std::string() : fault->is_a, info.text_at("error/localizedMessage")}));
    }
    if (waited >= task_timeout_)
      return failure(Code::kTimeout, "{} of VM {}: vCenter's task {} is still {} after {}", method, vm.name, task->text,
                     state, span_text(task_timeout_));
    sleep_(kPause);
  }
}

// What a device must be described by, as the VM's host tells it.
Result<std::string> Vcenter::added_devices(const VirtualMachine& vm, const Change& change) {
  std::string changes;
  int key = -100;  // vCenter replaces it
  if (!change.add_pci.empty()) {
    XOE_ASSIGN(const Element browser, property(vm.object, "environmentBrowser"));
    XOE_ASSIGN(const Element target, call("QueryConfigTarget", reference_of(browser), element("host", vm.host)));
    const Element* const known = target.child("returnval");
    for (const std::string& pci : change.add_pci) {
      const Element* found = nullptr;
      if (known != nullptr)
        for (const Element& each : known->children)
          if (each.name == "pciPassthrough" && each.text_at("pciDevice/id") == pci) found = &each;
      if (found == nullptr)
        return failure(Code::kResourceExhausted, "the host of VM {} has no device {} for DirectPath I/O", vm.name, pci);
      const auto device_id = std::strtol(found->text_at("pciDevice/deviceId").c_str(), nullptr, 10) & 0xffff;
      changes += device_change(
          "add", key--,
          fmt::format(R"(<backing xsi:type="VirtualPCIPassthroughDeviceBackingInfo">{}{}{}{}{}</backing>)",
                      element("deviceName", found->text_at("pciDevice/deviceName")), element("id", pci),
                      element("deviceId", fmt::format("{:x}", device_id)),
                      element("systemId", found->text_at("systemId")),
                      element("vendorId", found->text_at("pciDevice/vendorId"))));
    }
  }
  for (const std::string& profile : change.add_profiles)
    changes += device_change("add", key--,
                             fmt::format(R"(<backing xsi:type="VirtualPCIPassthroughVmiopBackingInfo">{}</backing>)",
                                         element("vgpu", profile)));
  return changes;
}

Status Vcenter::change(const VirtualMachine& vm, const Change& change) {
  XOE_ASSIGN(std::string changes, added_devices(vm, change));
  for (const int key : change.remove_keys) changes = device_change("remove", key, {}) + changes;
  return run_task("ReconfigVM_Task", vm, fmt::format("<spec>{}</spec>", changes));
}

Status Vcenter::power_on(const VirtualMachine& vm) { return run_task("PowerOnVM_Task", vm); }

Status Vcenter::shut_down(const VirtualMachine& vm, Span timeout) {
  if (const auto asked = call("ShutdownGuest", vm.object); !asked) return failure(asked.error());
  for (Span waited{0};; waited += kPause) {
    XOE_ASSIGN(const Element state, property(vm.object, "runtime.powerState"));
    if (state.text == "poweredOff") return {};
    if (waited >= timeout)
      return failure(Code::kTimeout, "VM {} has not shut down within {}", vm.name, span_text(timeout));
    sleep_(kPause);
  }
}

}  // namespace xoe::pool::vsphere
