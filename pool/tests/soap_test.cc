// vSphere's answers, and what a vCenter's agent makes of them.
#include <gmock/gmock.h>

#include <deque>

#include "pool/vsphere/agent.h"

namespace xoe::pool::vsphere::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string envelope(const std::string& body) {
  return R"(<?xml version="1.0"?><S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/"><S:Body>)" + body +
         "</S:Body></S:Envelope>";
}

std::string fault(const std::string& kind) {
  return envelope("<S:Fault><faultcode>ServerFaultCode</faultcode><faultstring>no</faultstring><detail><" + kind +
                  "Fault xmlns:x=\"i\" x:type=\"" + kind + "\"/></detail></S:Fault>");
}

TEST(Soap, ReadsTypesTextsAndPaths) {
  const auto answer =
      parse_answer(envelope(R"(<AnswerResponse xmlns="urn:vim25"><returnval type="Task">task-1</returnval>)"
                            R"(<val xmlns:i="x" i:type="v:Thing"><id>a &amp; b</id></val></AnswerResponse>)"));
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->fault);
  EXPECT_EQ(reference_of(*answer->body.child("returnval")), (Reference{"Task", "task-1"}));
  EXPECT_EQ(answer->body.child("val")->is_a, "Thing");
  EXPECT_EQ(answer->body.text_at("val/id"), "a & b");
  EXPECT_EQ(answer->body.at("val/none"), nullptr);
}

TEST(Soap, ReadsFaults) {
  const auto answer = parse_answer(fault("InvalidPowerState"));
  ASSERT_TRUE(answer && answer->fault);
  EXPECT_EQ(answer->fault->kind, "InvalidPowerState");
  EXPECT_EQ(fault_text(*answer->fault), "no (InvalidPowerState)");
}

TEST(Soap, RefusesWhatIsNoAnswer) {
  EXPECT_THAT(parse_answer("<html>busy").error().message(), HasSubstr("no XML at byte"));
  EXPECT_THAT(parse_answer("<html/>").error().message(), HasSubstr("no SOAP envelope with a body, but <html>"));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "<a>";
  for (int i = 0; i < 100; ++i) deep += "</a>";
  EXPECT_THAT(parse_answer(envelope(deep)).error().message(), HasSubstr("more than 64 levels"));
}

TEST(Soap, EscapesWhatUsersWrite) {
  EXPECT_EQ(element("password", std::string_view("<&\">")), "<password>&lt;&amp;&quot;&gt;</password>");
}

// A vCenter that answers from a list.
class Script : public Transport {
 public:
  Script(std::deque<Result<std::string>>& answers, std::vector<std::string>& sent) : answers_(answers), sent_(sent) {}
  Result<std::string> post(const std::string& body) override {
    sent_.push_back(body);
    if (answers_.empty()) return failure(Code::kUnavailable, "the script is over");
    auto answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }
  void forget_session() override {}

 private:
  std::deque<Result<std::string>>& answers_;
  std::vector<std::string>& sent_;
};

class Session : public ::testing::Test {
 protected:
  void will_answer(const std::string& body) { answers_.emplace_back(envelope(body)); }
  void will_tell_task(const std::string& state, const std::string& more = {}) {
    will_answer(
        "<RetrievePropertiesExResponse><returnval><objects><obj type=\"Task\">task-1</obj><propSet><name>info"
        "</name><val><state>" +
        state + "</state>" + more + "</val></propSet></objects></returnval></RetrievePropertiesExResponse>");
  }
  Vcenter open() {
    will_answer(
        "<RetrieveServiceContentResponse><returnval><rootFolder type=\"Folder\">root</rootFolder>"
        "<propertyCollector type=\"PropertyCollector\">pc</propertyCollector><viewManager type=\"ViewManager\">"
        "vm</viewManager><sessionManager type=\"SessionManager\">sm</sessionManager></returnval>"
        "</RetrieveServiceContentResponse>");
    will_answer("<LoginResponse/>");
    return Vcenter::open(std::make_unique<Script>(answers_, sent_), {"ann", "secret"},
                         [this](Span span) { slept_ += span; })
        .value();
  }

  std::deque<Result<std::string>> answers_;
  std::vector<std::string> sent_;
  Span slept_{0};
  const VirtualMachine vm_ = {.object = {"VirtualMachine", "vm-1"}, .name = "python"};
};

TEST_F(Session, ThatHasExpiredIsOpenedAgain) {
  Vcenter vcenter = open();
  answers_.emplace_back(fault("NotAuthenticated"));
  will_answer("<LoginResponse/>");
  will_answer(R"(<PowerOnVM_TaskResponse><returnval type="Task">task-1</returnval></PowerOnVM_TaskResponse>)");
  will_tell_task("success");
  EXPECT_TRUE(vcenter.power_on(vm_));
  EXPECT_THAT(sent_[3], HasSubstr("<Login xmlns=\"urn:vim25\">"));
  EXPECT_EQ(sent_[2], sent_[4]);
}

TEST_F(Session, ATaskIsAwaitedAndItsFaultIsTold) {
  Vcenter vcenter = open();
  will_answer(R"(<PowerOnVM_TaskResponse><returnval type="Task">task-1</returnval></PowerOnVM_TaskResponse>)");
  will_tell_task("queued");
  will_tell_task("running");
  will_tell_task("error",
                 "<error><fault xmlns:i=\"x\" i:type=\"ResourceInUse\"/><localizedMessage>busy"
                 "</localizedMessage></error>");
  const auto done = vcenter.power_on(vm_);
  EXPECT_EQ(done.error().message(), "vCenter refuses PowerOnVM_Task of VM python: busy (ResourceInUse)");
  EXPECT_EQ(slept_, std::chrono::seconds(1));
}

TEST_F(Session, ATaskThatDoesNotEndIsNotAwaitedForEver) {
  Vcenter vcenter = open();
  vcenter.set_task_timeout(std::chrono::seconds(10));
  will_answer(R"(<PowerOnVM_TaskResponse><returnval type="Task">task-1</returnval></PowerOnVM_TaskResponse>)");
  for (int i = 0; i < 30; ++i) will_tell_task("running");
  const auto done = vcenter.power_on(vm_);
  EXPECT_EQ(done.error().code(), Code::kTimeout);
  EXPECT_THAT(done.error().message(), HasSubstr("task-1 is still running after 10 s"));
}

// --- what has to be done ---

Inventory two_machines() {
  const Reference host{"HostSystem", "host-1"};
  Inventory inventory;
  inventory.hosts.push_back(
      {.object = host, .name = "esx", .gpus = {{.pci = "0000:3b:00.0"}, {.pci = "0000:3c:00.0"}}});
  inventory.vms = {{.object = {"VirtualMachine", "1"}, .name = "python", .host = host},
                   {.object = {"VirtualMachine", "2"}, .name = "r", .host = host}};
  return inventory;
}

TEST(Steps, AGpuOfAnotherMachineIsNotAddedBeforeThatGivesItBack) {
  Inventory inventory = two_machines();
  inventory.vms[0].devices = {{.key = 7, .pci = "0000:3b:00.0"}};
  const std::string gpu = "vsphere:esx:0000:3b:00.0";
  const auto steps = steps_to(inventory, {}, {{.vm = "r", .gpus = {gpu}}, {.vm = "python", .take_back = {gpu}}});
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].vm.name, "python");  // gives back first
  EXPECT_THAT(steps[0].change.remove_keys, ElementsAre(7));
  EXPECT_EQ(steps[1].blocked, "VM python still has 0000:3b:00.0");
}

TEST(Steps, WhatNoLeaseGaveIsNotTaken) {
  Inventory inventory = two_machines();
  inventory.vms[0].devices = {{.key = 7, .pci = "0000:3b:00.0"}};
  EXPECT_THAT(steps_to(inventory, {}, {{.vm = "python"}}), IsEmpty());
}

TEST(Steps, AMachineThatRunsIsLeftAloneUnlessBothItsLeaseAndTheAgentAllowIt) {
  Inventory inventory = two_machines();
  inventory.vms[0].running = true;
  VmAssignment assignment{.vm = "python", .gpus = {"vsphere:esx:0000:3b:00.0"}};
  EXPECT_THAT(steps_to(inventory, {}, {assignment})[0].blocked, HasSubstr("shut it down"));
  assignment.power_cycle = true;
  EXPECT_THAT(steps_to(inventory, {}, {assignment})[0].blocked, HasSubstr("the agent may not shut it down"));
  EXPECT_EQ(steps_to(inventory, {.power_cycle = true}, {assignment})[0].blocked, "");
}

TEST(Steps, MachinesOfOneNameGetNothing) {
  Inventory inventory = two_machines();
  inventory.vms[1].name = "python";
  const Reports reports = reports_of(inventory, {}, {}, {});
  EXPECT_THAT(reports.hosts[0].vms, IsEmpty());
  EXPECT_THAT(reports.warnings, ElementsAre("2 VMs have the name python: they get no GPUs"));
}

TEST(Steps, VgpusThatAreLeftOutAreTold) {
  const HostGpu gpu{.pci = "0000:3b:00.0", .memory = std::uint64_t{280} << 30, .shared = true};
  const Inventory inventory{
      .hosts = {{.object = "host-1", .name = "esx1", .gpus = {gpu}, .vgpu_profiles = {"grid-4q"}}}};
  const Reports reports = reports_of(inventory, {.vgpu_profile = "grid-4q"}, {}, {});
  EXPECT_EQ(reports.hosts[0].gpus.size(), 64U);
  EXPECT_EQ(reports.hosts[0].problem, "0000:3b:00.0 has room for 70 vGPUs, more than the 64 that are reported");
  EXPECT_THAT(reports.warnings, ElementsAre("esx1: " + reports.hosts[0].problem));
}

}  // namespace
}  // namespace xoe::pool::vsphere::testing
