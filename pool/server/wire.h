// What the requests and answers of the HTTP interface hold besides the values of pool/model, each with its table
// (core/describe/field.h). The text of each line goes into the interface's description.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/describe/field.h"
#include "pool/core/drift.h"
#include "pool/model/fields.h"
#include "pool/server/orders.h"
#include "pool/state/store.h"

namespace xoe::pool {

constexpr auto fields_of(const Drift*) {
  using describe::field;
  return std::tuple(field<&Drift::gpu>("gpu"), field<&Drift::host>("host"), field<&Drift::lease>("lease"),
                    field<&Drift::what>("what"));
}

constexpr auto fields_of(const GpuHolder*) {
  using describe::field;
  return std::tuple(field<&GpuHolder::gpu>("gpu", {.required = true}),
                    field<&GpuHolder::user>("user", {.required = true}));
}

}  // namespace xoe::pool

namespace xoe::pool::wire {

using describe::field;

inline constexpr std::string_view kSince1970 = "seconds since 1970";

// ---- Bodies of requests

struct Request {
  std::string token = {};
  LeaseRequest request = {};
};
constexpr auto fields_of(const Request*) {
  return std::tuple_cat(
      std::tuple(field<&Request::token>(
          "token",
          {.what = "32 to 128 random letters, digits, - and _, chosen by the client: the key that makes asking "
                   "twice the same as asking once",
           .longest = 128,
           .required = true,
           .pattern = "^[A-Za-z0-9_-]{32,128}$"})),
      describe::fields_below<&Request::request>());
}
constexpr std::string_view schema_name_of(const Request*) { return "LeaseRequest"; }

struct Renewal {
  std::optional<std::string> token = {};
  Span duration{0};
};
constexpr auto fields_of(const Renewal*) {
  return std::tuple(
      field<&Renewal::token>("token",
                             {.what = "the lease's; without it the user speaks for its own lease", .shortest = 1}),
      field<&Renewal::duration>("seconds", {.what = "from now", .most = kMostSeconds, .above = 0, .required = true}));
}

struct Release {
  std::optional<std::string> token = {};
};
constexpr auto fields_of(const Release*) { return std::tuple(field<&Release::token>("token", {.shortest = 1})); }

struct Reason {
  std::string why = {};
};
constexpr auto fields_of(const Reason*) {
  return std::tuple(field<&Reason::why>("why", {.longest = kLongestPurpose, .required = true}));
}

struct Name {
  std::string name = {};
};
constexpr auto fields_of(const Name*) {
  return std::tuple(field<&Name::name>("name", {.shortest = 1, .required = true}));
}

struct Path {
  std::string path = {};
};
constexpr auto fields_of(const Path*) {
  return std::tuple(field<&Path::path>("path", {.required = true, .pattern = "^/"}));
}

struct UserForm {
  User user = {};
  bool new_token = false;
  std::optional<std::string> token = {};
};
constexpr auto fields_of(const UserForm*) {
  return std::tuple_cat(
      describe::fields_below<&UserForm::user>(),
      std::tuple(field<&UserForm::new_token>("new_token", {.what = "replace its token", .option = true}),
                 field<&UserForm::token>(
                     "token", {.what = "for a new user, or a new one, of the client's choice; then the request may be "
                                       "sent twice",
                               .longest = 128,
                               .pattern = "^[0-9A-Za-z_-]{32,128}$"})));
}
constexpr std::string_view schema_name_of(const UserForm*) { return "User"; }

// A GPU of a report.
struct ReportedGpu {
  Gpu gpu = {};
  std::optional<int> utilisation = {};
  int temperature = 0;
  std::uint64_t memory_used = 0;
  std::optional<std::vector<std::string>> open_to = {};
  std::optional<std::vector<GpuProcess>> processes = {};
};
constexpr auto fields_of(const ReportedGpu*) {
  using Reported = ReportedGpu;
  return std::tuple(
      field<&Reported::gpu, &Gpu::uuid>(
          "uuid", {.shortest = 1, .longest = kLongestUuid, .required = true, .pattern = "^[^, \\n]+$"}),
      field<&Reported::gpu, &Gpu::name>("name", {.longest = kLongestName}),
      field<&Reported::gpu, &Gpu::pci>("pci", {.longest = kLongestName}),
      field<&Reported::gpu, &Gpu::memory>("memory", {.least = 0, .most = kMostBytes}),
      field<&Reported::gpu, &Gpu::nvlinks>("nvlinks"),
      field<&Reported::utilisation>("utilisation", {.what = "per cent", .least = 0, .most = 100}),
      field<&Reported::temperature>("temperature",
                                    {.what = "degrees Celsius; 0: not known", .least = -300, .most = 1000}),
      field<&Reported::memory_used>("memory_used", {.least = 0, .most = kMostBytes}),
      field<&Reported::open_to>("open_to", {.what = "users who can open its device file, which is closed to others; "
                                                    "missing: it is as it is"}),
      field<&Reported::processes>("processes",
                                  {.what = "missing: the driver does not list them", .entries = kMostProcesses}));
}
constexpr std::string_view schema_name_of(const ReportedGpu*) { return "ReportedGpu"; }

struct Report {
  std::string host = {};
  std::string without = {};
  std::vector<ReportedGpu> gpus = {};
  std::vector<Vm> vms = {};
  std::string problem = {};
  std::string machine = {};
  Span age{0};
};
constexpr auto fields_of(const Report*) {
  return std::tuple(
      field<&Report::host>("host", {.what = "a name of at most 255 bytes", .shortest = 1, .required = true}),
      field<&Report::without>("without", {.longest = kLongestWithout}),
      field<&Report::gpus>("gpus", {.entries = kMaxGpus}),
      field<&Report::vms>("vms", {.entries = kMostVms, .if_set = true}),
      field<&Report::problem>("problem", {.what = "why what should be could not be done", .if_set = true}),
      field<&Report::machine>("machine",
                              {.what = "the machine that reports, in a text of its own for each of its starts: "
                                       "while one reports, another with the same host's name is refused with "
                                       "409",
                               .if_set = true}),
      field<&Report::age>("age",
                          {.what = "seconds since the look at the GPUs began that it tells of: a lease that ended "
                                   "meanwhile is not seen in it",
                           .least = 0,
                           .most = 86400,
                           .if_set = true}));
}
constexpr std::string_view schema_name_of(const Report*) { return "Report"; }

// ---- Answers

constexpr auto fields_of(const Orders*) {
  return std::tuple(
      field<&Orders::end>("end", {.what = "processes of idle leases, which shall end"}),
      field<&Orders::vms>("vms", {.what = "what virtual machines should have", .entries = kMostVms, .if_set = true}),
      field<&Orders::holders>("holders", {.what = "who holds the GPUs that programs use", .if_set = true}),
      field<&Orders::leases>("leases", {.what = "what a cluster shall allocate", .if_set = true}));
}

// The program of a lease is only told of its GPUs, or can use no others.
enum class Enforcement : std::uint8_t { kEnvironment, kCgroup };
inline constexpr std::array<std::string_view, 2> kEnforcementNames = {"environment", "cgroup"};
constexpr const auto& names_of(Enforcement) { return kEnforcementNames; }

struct ShownGiveWay {
  describe::OrNull<Time> by = {};
  std::int64_t for_lease = 0;
};
constexpr auto fields_of(const ShownGiveWay*) {
  return std::tuple(field<&ShownGiveWay::by>("by"), field<&ShownGiveWay::for_lease>("for"));
}

struct ShownLease {
  Lease lease = {};
  std::optional<int> position = {};
  std::optional<describe::OrNull<Time>> starts = {};
  std::optional<std::vector<std::string>> planned_gpus = {};
  std::optional<Time> at = {};
  std::optional<std::vector<std::string>> gpus = {};
  std::optional<std::vector<std::string>> hosts = {};
  std::optional<std::map<std::string, std::vector<std::string>>> gpus_by_host = {};
  std::optional<Time> begins = {};
  std::optional<Time> expires = {};
  std::optional<Time> ended = {};
  std::optional<bool> expiry_warned = {};
  std::optional<IdlePhase> idle = {};
  std::optional<ShownGiveWay> give_way = {};
  bool unclaimed = false;
  bool guarded = false;
  bool closed = false;
  Enforcement enforced = Enforcement::kEnvironment;
  std::optional<std::int64_t> job = {};
};
constexpr auto fields_of(const ShownLease*) {
  using Shown = ShownLease;
  return std::tuple(
      field<&Shown::lease, &Lease::id>("id"), field<&Shown::lease, &Lease::user>("user"),
      field<&Shown::lease, &Lease::team>("team"), field<&Shown::lease, &Lease::state>("state"),
      field<&Shown::lease, &Lease::asked>("asked", {.what = kSince1970}),
      field<&Shown::lease, &Lease::request, &LeaseRequest::gpus>("count"),
      field<&Shown::lease, &Lease::request, &LeaseRequest::priority>("priority"),
      field<&Shown::lease, &Lease::request, &LeaseRequest::duration>("seconds"),
      field<&Shown::lease, &Lease::request, &LeaseRequest::purpose>("purpose"),
      field<&Shown::lease, &Lease::borrowed>("borrowed", {.what = "beyond the quota of its team"}),
      field<&Shown::lease, &Lease::why>("why", {.what = "why it waits, or has ended", .if_set = true}),
      field<&Shown::position>("position", {.what = "in the queue, from 1"}),
      field<&Shown::starts>("starts", {.what = "when it will start; null: not known"}),
      field<&Shown::planned_gpus>("planned_gpus"), field<&Shown::at>("at", {.what = kSince1970}),
      field<&Shown::gpus>("gpus", {.what = "UUIDs that it holds or held"}), field<&Shown::hosts>("hosts"),
      field<&Shown::gpus_by_host>("gpus_by_host"), field<&Shown::begins>("begins", {.what = kSince1970}),
      field<&Shown::expires>("expires", {.what = kSince1970}), field<&Shown::ended>("ended", {.what = kSince1970}),
      field<&Shown::expiry_warned>("expiry_warned"), field<&Shown::idle>("idle"), field<&Shown::give_way>("give_way"),
      field<&Shown::unclaimed>("unclaimed",
                               {.what = "it came from the queue, and no request of its user for it has begun "
                                        "since: it ends as one whose client is gone would leave the queue",
                                .if_set = true}),
      field<&Shown::guarded>(
          "guarded", {.what = "the agent keeps the device files of its GPUs closed to other users", .if_set = true}),
      field<&Shown::closed>(
          "closed", {.what = "they are still closed to its user, too: its programs should wait", .if_set = true}),
      field<&Shown::lease, &Lease::request, &LeaseRequest::yields>("yields",
                                                                   {.what = "gives way before leases that do not"}),
      field<&Shown::enforced>("enforced", {.what = "environment: programs are told their GPUs, and could use others; "
                                                   "cgroup: they can use no others"}),
      field<&Shown::lease, &Lease::request, &LeaseRequest::vm>(
          "vm", {.what = "the virtual machine of a vSphere that has them", .if_set = true}),
      field<&Shown::lease, &Lease::request, &LeaseRequest::slurm>(
          "slurm", {.what = "it is an allocation of a Slurm cluster", .if_set = true}),
      field<&Shown::job>("job", {.what = "the job of the cluster, once there is one"}));
}
constexpr std::string_view schema_name_of(const ShownLease*) { return "Lease"; }

struct LeaseAnswer {
  ShownLease lease = {};
};
constexpr auto fields_of(const LeaseAnswer*) { return std::tuple(field<&LeaseAnswer::lease>("lease")); }
constexpr std::string_view schema_name_of(const LeaseAnswer*) { return "LeaseAnswer"; }

struct Leases {
  std::vector<ShownLease> leases = {};
};
constexpr auto fields_of(const Leases*) { return std::tuple(field<&Leases::leases>("leases")); }

struct ShownGpu {
  Gpu gpu = {};
  std::optional<int> utilisation = {};
  std::optional<int> temperature = {};
  std::optional<std::uint64_t> memory_used = {};
  std::optional<std::vector<GpuProcess>> processes = {};
  std::optional<std::vector<std::string>> open_to = {};
  bool present = false;
  GpuUse use = GpuUse::kFree;
  std::int64_t lease = 0;
};
constexpr auto fields_of(const ShownGpu*) {
  using Shown = ShownGpu;
  return std::tuple(field<&Shown::gpu, &Gpu::uuid>("uuid"), field<&Shown::gpu, &Gpu::host>("host"),
                    field<&Shown::gpu, &Gpu::name>("name"), field<&Shown::gpu, &Gpu::pci>("pci"),
                    field<&Shown::gpu, &Gpu::memory>("memory"), field<&Shown::gpu, &Gpu::nvlinks>("nvlinks"),
                    field<&Shown::utilisation>("utilisation"), field<&Shown::temperature>("temperature"),
                    field<&Shown::memory_used>("memory_used"),
                    field<&Shown::processes>("processes", {.what = "missing: the driver does not list them"}),
                    field<&Shown::open_to>(
                        "open_to", {.what = "the agent keeps its device file closed to all but root and its holder; "
                                            "without an entry, to that one, too"}),
                    field<&Shown::present>("present", {.what = "its host is online and has it"}),
                    field<&Shown::use>("use", {.what = "unleased: a program uses it without a lease, by its "
                                                       "processes, work or memory; offline: it is not present"}),
                    field<&Shown::lease>("lease", {.what = "that holds it", .if_set = true}));
}
constexpr std::string_view schema_name_of(const ShownGpu*) { return "Gpu"; }

struct ShownTeam {
  Team team = {};
  int held = 0;
};
constexpr auto fields_of(const ShownTeam*) {
  return std::tuple_cat(describe::fields_below<&ShownTeam::team>(), std::tuple(field<&ShownTeam::held>("held")));
}

struct ShownVm {
  Vm vm = {};
};
constexpr auto fields_of(const ShownVm*) {
  return std::tuple_cat(describe::fields_below<&ShownVm::vm>(), std::tuple(field<&ShownVm::vm, &Vm::host>("host")));
}

struct Status {
  Time now = {};
  std::vector<Host> hosts = {};
  std::vector<ShownGpu> gpus = {};
  std::vector<ShownLease> leases = {};
  std::vector<ShownLease> queue = {};
  std::vector<Drift> drift = {};
  std::vector<ShownTeam> teams = {};
  std::vector<ShownVm> vms = {};
};
constexpr auto fields_of(const Status*) {
  return std::tuple(field<&Status::now>("now", {.what = kSince1970}), field<&Status::hosts>("hosts"),
                    field<&Status::gpus>("gpus"), field<&Status::leases>("leases", {.what = "that are open"}),
                    field<&Status::queue>("queue", {.what = "that wait, in their order"}),
                    field<&Status::drift>("drift"), field<&Status::teams>("teams"), field<&Status::vms>("vms"));
}
constexpr std::string_view schema_name_of(const Status*) { return "Status"; }

struct Me {
  User user = {};
  Span longest{0};
};
constexpr auto fields_of(const Me*) {
  return std::tuple(field<&Me::user, &User::name>("name"), field<&Me::user, &User::team>("team"),
                    field<&Me::user, &User::role>("role"),
                    field<&Me::user, &User::max_gpus>("max_gpus", {.what = "at once; 0: any number"}),
                    field<&Me::user, &User::max_priority>("max_priority"),
                    field<&Me::longest>("max_seconds", {.what = "of a lease"}));
}
constexpr std::string_view schema_name_of(const Me*) { return "Me"; }

struct Events {
  std::vector<Event> events = {};
};
constexpr auto fields_of(const Events*) { return std::tuple(field<&Events::events>("events")); }

struct ShownUsage {
  UsageRow row = {};
  double held = 0;
  double busy = 0;
  double idle = 0;
};
constexpr auto fields_of(const ShownUsage*) {
  return std::tuple(field<&ShownUsage::row, &UsageRow::hour>("hour", {.what = kSince1970}),
                    field<&ShownUsage::row, &UsageRow::team>("team"), field<&ShownUsage::row, &UsageRow::user>("user"),
                    field<&ShownUsage::held>("held", {.what = "GPU-hours"}), field<&ShownUsage::busy>("busy"),
                    field<&ShownUsage::idle>("idle"));
}
constexpr std::string_view schema_name_of(const ShownUsage*) { return "UsageRow"; }

struct Usage {
  std::vector<ShownUsage> usage = {};
};
constexpr auto fields_of(const Usage*) { return std::tuple(field<&Usage::usage>("usage")); }

struct NewToken {
  std::optional<std::string> token = {};
};
constexpr auto fields_of(const NewToken*) {
  return std::tuple(field<&NewToken::token>("token", {.what = "of a new user, or a new one"}));
}

struct Nothing {};
constexpr auto fields_of(const Nothing*) { return std::tuple(); }

struct ErrorBody {
  std::string code = {};
  std::string message = {};
};
constexpr auto fields_of(const ErrorBody*) {
  return std::tuple(field<&ErrorBody::code>("code"),
                    field<&ErrorBody::message>("message", {.what = "what was wrong and what to do", .longest = 65536}));
}

struct Refusal {
  ErrorBody error = {};
};
constexpr auto fields_of(const Refusal*) { return std::tuple(field<&Refusal::error>("error")); }
constexpr std::string_view schema_name_of(const Refusal*) { return "Error"; }

}  // namespace xoe::pool::wire
