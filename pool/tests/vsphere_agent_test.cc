// What the agent of a vCenter remembers from one round to the next, and for how long.
#include <gmock/gmock.h>

#include <fmt/format.h>

#include "pool/vsphere/agent.h"

namespace xoe::pool::vsphere::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kGpu = "vsphere:esx:0000:3b:00.0";

// One host with a GPU, and one machine.
struct Site {
  bool is_there = true;
  bool running = true;
  bool has_gpu = false;
  bool starts = true;   // the machine, when it is asked to
  bool changes = true;  // its devices, the same
  bool tells = true;    // which devices the machine has
  std::vector<std::string> done = {};
};

// A vCenter with that site.
class FakeVcenter : public Transport {
 public:
  explicit FakeVcenter(Site& site) : site_(site) {}
  void forget_session() override {}
  Result<std::string> post(const std::string& body) override {
    const auto asks = [&](const char* method) { return body.find(fmt::format("<{} xmlns", method)) != body.npos; };
    if (asks("RetrieveServiceContent"))
      return envelope(
          "<returnval><rootFolder type=\"Folder\">root</rootFolder><propertyCollector type=\"P\">pc"
          "</propertyCollector><viewManager type=\"V\">vm</viewManager><sessionManager type=\"S\">sm"
          "</sessionManager></returnval>");
    if (asks("CreateContainerView")) return envelope("<returnval type=\"ContainerView\">view</returnval>");
    if (asks("ShutdownGuest")) note("shut down", [this] { site_.running = false; });
    if (asks("PowerOnVM_Task")) return task("start", site_.starts, [this] { site_.running = true; });
    if (asks("ReconfigVM_Task")) return task("change", site_.changes, [this] { site_.has_gpu = true; });
    if (asks("QueryConfigTarget"))
      return envelope(
          "<returnval><pciPassthrough><pciDevice><id>0000:3b:00.0</id></pciDevice></pciPassthrough></returnval>");
    if (asks("RetrievePropertiesEx")) return envelope("<returnval>" + properties(body) + "</returnval>");
    return envelope("");
  }

 private:
  static std::string envelope(const std::string& body) {
    return "<S:Envelope xmlns:S=\"http://schemas.xmlsoap.org/soap/envelope/\" xmlns:x=\"i\"><S:Body><Response>" + body +
           "</Response></S:Body></S:Envelope>";
  }
  static std::string property(const char* name, const std::string& value, const char* type = "") {
    return fmt::format("<propSet><name>{}</name><val{}>{}</val></propSet>", name, type, value);
  }
  template <class Change>
  void note(const char* what, const Change& change) {
    site_.done.emplace_back(what);
    change();
  }
  template <class Change>
  std::string task(const char* what, bool can, const Change& change) {
    succeeded_ = can;
    note(what, [&] {
      if (can) change();
    });
    return envelope("<returnval type=\"Task\">task</returnval>");
  }
  std::string power() const { return property("runtime.powerState", site_.running ? "poweredOn" : "poweredOff"); }
  std::string properties(const std::string& body) const {
    if (body.find("<pathSet>info<") != body.npos)
      return "<objects><obj type=\"Task\">task</obj>" +
             property("info", succeeded_
                                  ? "<state>success</state>"
                                  : "<state>error</state><error><localizedMessage>no</localizedMessage></error>") +
             "</objects>";
    if (body.find("environmentBrowser") != body.npos)
      return "<objects><obj type=\"VirtualMachine\">1</obj>" +
             property("environmentBrowser", "browser", " type=\"B\"") + "</objects>";
    if (body.find("HostSystem") == body.npos)
      return "<objects><obj type=\"VirtualMachine\">1</obj>" + power() + "</objects>";
    const std::string device =
        "<D x:type=\"VirtualPCIPassthrough\"><key>7</key><backing x:type=\"B\"><id>0000:3b:00.0</id></backing></D>";
    const std::string machine = "<objects><obj type=\"VirtualMachine\">1</obj>" + property("name", "python") +
                                property("runtime.host", "host-1", " type=\"HostSystem\"") + power() +
                                (site_.tells ? property("config.hardware.device", site_.has_gpu ? device : "") : "") +
                                "</objects>";
    const std::string host =
        "<objects><obj type=\"HostSystem\">host-1</obj>" + property("name", "esx") +
        property("hardware.pciDevice", "<D><id>0000:3b:00.0</id><classId>768</classId><vendorId>4318</vendorId></D>") +
        property("config.pciPassthruInfo",
                 "<D><id>0000:3b:00.0</id><passthruEnabled>true</passthruEnabled><passthruActive>true"
                 "</passthruActive></D>") +
        "</objects>";
    return site_.is_there ? host + machine : host;
  }

  Site& site_;
  bool succeeded_ = true;
};

class VsphereAgent : public ::testing::Test {
 protected:
  VsphereAgent()
      : agent_(Vcenter::open(std::make_unique<FakeVcenter>(site_), {"pool", "secret"}, [](Span) {}).value(),
               {.power_cycle = true}) {}

  static VmAssignment lease(std::int64_t id) {
    return {.vm = "python", .leases = {id}, .gpus = {kGpu}, .power_cycle = true};
  }
  // What it did in one round.
  std::vector<std::string> round(const std::vector<VmAssignment>& assignments,
                                 const std::set<std::string>& unknown = {}) {
    const auto reports = agent_.observe();
    EXPECT_TRUE(reports) << reports.error().message();
    site_.done.clear();
    agent_.apply(assignments, unknown);
    return site_.done;
  }

  Site site_;
  Agent agent_;
};

TEST_F(VsphereAgent, AMachineThatItDidNotGetToStartIsStartedLater) {
  site_.starts = false;
  EXPECT_THAT(round({lease(1)}), ElementsAre("shut down", "change", "start"));
  EXPECT_THAT(round({lease(1)}), ElementsAre("start"));
  site_.starts = true;
  EXPECT_THAT(round({lease(1)}), ElementsAre("start"));
  site_.running = false;  // by its user
  EXPECT_THAT(round({lease(1)}), IsEmpty());
}

TEST_F(VsphereAgent, AMachineThatRanOrWasGoneMeanwhileIsNotStarted) {
  for (const bool is_gone : {false, true}) {
    site_ = {.starts = false};
    ASSERT_THAT(round({lease(1)}), ElementsAre("shut down", "change", "start"));
    site_.running = !is_gone;
    site_.is_there = !is_gone;
    EXPECT_THAT(round({lease(1)}), IsEmpty());
    site_ = {.running = false, .has_gpu = true};
    EXPECT_THAT(round({lease(1)}), IsEmpty()) << "its user shut it down";
  }
}

// A machine whose datastore is away, for one.
TEST_F(VsphereAgent, WhatVcenterDoesNotTellNowIsAsItWas) {
  site_ = {.running = false, .has_gpu = true};
  ASSERT_THAT(round({}), IsEmpty());
  site_.tells = false;
  for (int look = 0; look < 3; ++look) {
    const auto reports = agent_.observe();
    ASSERT_TRUE(reports);
    ASSERT_EQ(reports->hosts.at(0).vms.size(), 1U);
    EXPECT_THAT(reports->hosts[0].vms[0].gpus, ElementsAre(kGpu));
    EXPECT_EQ(reports->hosts[0].activity.at(0).processes.size(), 1U);
    EXPECT_THAT(round({lease(1)}), IsEmpty()) << "it has what it should";
  }
  site_.tells = true;
  site_.has_gpu = false;
  EXPECT_THAT(round({lease(1)}), ElementsAre("change"));
}

TEST_F(VsphereAgent, AMachineWhoseDevicesWereNeverToldIsLeftAlone) {
  site_ = {.running = false, .tells = false};
  EXPECT_THAT(round({lease(1)}), IsEmpty());
  EXPECT_THAT(agent_.observe().value().hosts.at(0).vms.at(0).problem, HasSubstr("does not tell the VM's devices"));
  site_.tells = true;
  EXPECT_THAT(round({lease(1)}), ElementsAre("change"));
}

TEST_F(VsphereAgent, AGpuThatAMachineMayHaveIsNotAddedToAnother) {
  const EsxiHost host{.object = {"HostSystem", "host-1"}, .name = "esx", .gpus = {{.pci = "0000:3b:00.0"}}};
  VirtualMachine wants{.object = {"VirtualMachine", "1"}, .name = "python", .host = host.object};
  VirtualMachine other{
      .object = {"VirtualMachine", "2"}, .name = "other", .host = host.object, .running = true, .devices_known = false};
  const auto blocked = [&] { return steps_to({.hosts = {host}, .vms = {wants, other}}, {}, {lease(1)}).at(0).blocked; };
  EXPECT_EQ(blocked(), "VM other may have 0000:3b:00.0: vCenter does not tell its devices");
  other.running = false;  // its start would fail
  EXPECT_EQ(blocked(), "");
}

TEST_F(VsphereAgent, APowerCycleInVainIsTriedAgainForAnotherLeaseOnly) {
  site_.changes = false;
  ASSERT_THAT(round({lease(1)}), ElementsAre("shut down", "change", "start"));
  EXPECT_THAT(round({lease(1)}), IsEmpty());
  EXPECT_THAT(round({}, {"esx"}), IsEmpty());
  EXPECT_THAT(round({lease(1)}), IsEmpty()) << "the pool refused a report, which ended no lease";
  EXPECT_THAT(round({lease(2)}), ElementsAre("shut down", "change", "start"));
  EXPECT_THAT(round({}), IsEmpty());
  EXPECT_THAT(round({lease(2)}), ElementsAre("shut down", "change", "start")) << "it had ended meanwhile";
}

}  // namespace
}  // namespace xoe::pool::vsphere::testing
