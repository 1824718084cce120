// The tables of what programs send each other and the database keeps, one line for each field: core/describe makes
// JSON, the interface's description and the page's types from them. A new field of a lease's request is a member there
// and a line here.
#pragma once

#include "core/describe/field.h"
#include "pool/model/state.h"

namespace xoe::pool {

inline constexpr double kMostBytes = 1e15;
inline constexpr double kMostSeconds = 1e11;  // beyond the year 5000
// Bytes.
inline constexpr std::size_t kLongestName = 255;
inline constexpr std::size_t kLongestUuid = 512;      // one of a vCenter has its host's name
inline constexpr std::size_t kLongestPurpose = 200;   // also of a reason that a person gives
inline constexpr std::size_t kLongestWithout = 1024;  // why a host has no GPUs
inline constexpr std::size_t kMostProcesses = 4096;
inline constexpr std::size_t kMostVms = 4096;

inline constexpr std::string_view kPlace = "place";  // from here on: where the GPUs are, and for which machine

constexpr auto fields_of(const LeaseRequest*) {
  using describe::field;
  using Request = LeaseRequest;
  return std::tuple(
      field<&Request::gpus>("gpus", {.least = 1, .most = kMaxGpus, .always_stored = true}),
      field<&Request::type>("type", {.what = "part of the GPU's name, such as t4, in any case",
                                     .always_stored = true,
                                     .option = true,
                                     .placeholder = "NAME"}),
      field<&Request::memory>(
          "memory", {.what = "bytes of each GPU, at least", .least = 0, .most = kMostBytes, .always_stored = true}),
      field<&Request::same_nvlink>("same_nvlink",
                                   {.what = "NVLinks between all of them", .always_stored = true, .option = true}),
      field<&Request::any_host>("any_host",
                                {.what = "they may be on several hosts", .always_stored = true, .option = true}),
      field<&Request::duration>("seconds",
                                {.least = 0, .most = kMostSeconds, .stored_as = "duration", .always_stored = true}),
      field<&Request::priority>("priority", {.what = "more goes first; a user has a limit",
                                             .least = -1000,
                                             .most = 1000,
                                             .always_stored = true,
                                             .option = true}),
      field<&Request::at>("at", {.what = "a reservation: from then on, in seconds since 1970",
                                 .least = 0,
                                 .most = kMostSeconds,
                                 .always_stored = true}),
      field<&Request::wait>("wait", {.what = "in the queue until there are GPUs; otherwise now or not at all",
                                     .always_stored = true,
                                     .option = true}),
      field<&Request::purpose>("purpose", {.what = "one line for the others", .always_stored = true, .option = true}),
      field<&Request::exact>("exact",
                             {.what = "UUIDs: these GPUs and no others", .entries = kMaxGpus, .always_stored = true}),
      field<&Request::host>("host", {.what = "only GPUs of this host",
                                     .longest = kLongestName,
                                     .group = kPlace,
                                     .option = true,
                                     .placeholder = "NAME"}),
      field<&Request::yields>("yields", {.what = "it may be asked to give way at any time, without a minimum runtime"}),
      field<&Request::device_rule>("device_rule",
                                   {.what = "the program runs under a device rule; for what status tells"}),
      field<&Request::vm>("vm", {.what = "GPUs for this virtual machine of a vSphere",
                                 .longest = kLongestName,
                                 .option = true,
                                 .placeholder = "NAME"}),
      field<&Request::power_cycle>("power_cycle",
                                   {.what = "the machine may be shut down for that, if it runs, and started again; "
                                            "also when they are taken back",
                                    .option = true}),
      field<&Request::slurm>("slurm", {.what = "as an allocation of a Slurm cluster", .option = true}));
}

// The database keeps it so.
constexpr auto fields_of(const GiveWay*) {
  using describe::field;
  return std::tuple(field<&GiveWay::asked>("asked", {.always_stored = true}),
                    field<&GiveWay::by>("by", {.always_stored = true}),
                    field<&GiveWay::for_lease>("for", {.always_stored = true}));
}

constexpr auto fields_of(const GpuProcess*) {
  using describe::field;
  return std::tuple(field<&GpuProcess::pid>("pid", {.least = 0, .most = 2147483647}),
                    field<&GpuProcess::user>("user", {.longest = kLongestName}),
                    field<&GpuProcess::memory>("memory", {.least = 0, .most = kMostBytes}),
                    field<&GpuProcess::cpu>("cpus", {.least = 0, .most = 1e6}));
}
constexpr std::string_view schema_name_of(const GpuProcess*) { return "Process"; }

constexpr auto fields_of(const Vm*) {
  using describe::field;
  return std::tuple(
      field<&Vm::name>("name", {.required = true}), field<&Vm::running>("running"),
      field<&Vm::has_reserved>("reserved", {.what = "all of its memory"}), field<&Vm::may_cycle>("may_cycle"),
      field<&Vm::devices>("devices", {.least = 0, .most = 1000}), field<&Vm::gpus>("gpus", {.entries = kMaxGpus}),
      field<&Vm::users>("users", {.what = "who may have leases for it: names of users, and @TEAM; none: every user"}),
      field<&Vm::problem>("problem", {.what = "why it is not as it should be"}));
}
constexpr std::string_view schema_name_of(const Vm*) { return "Vm"; }

constexpr auto fields_of(const VmAssignment*) {
  using describe::field;
  return std::tuple(field<&VmAssignment::vm>("vm", {.required = true}),
                    field<&VmAssignment::leases>("leases", {.what = "that are open"}),
                    field<&VmAssignment::gpus>("gpus", {.what = "of them"}),
                    field<&VmAssignment::take_back>("take_back"), field<&VmAssignment::power_cycle>("power_cycle"));
}

constexpr auto fields_of(const ClusterLease*) {
  using describe::field;
  return std::tuple(field<&ClusterLease::id>("id", {.least = 1, .most = 1e15}), field<&ClusterLease::user>("user"),
                    field<&ClusterLease::host>("host"), field<&ClusterLease::gpus>("gpus"),
                    field<&ClusterLease::ends>("ends", {.least = 0, .most = kMostSeconds}),
                    field<&ClusterLease::left>("seconds", {.least = -kMostSeconds, .most = kMostSeconds}));
}

constexpr auto fields_of(const Host*) {
  using describe::field;
  return std::tuple(
      field<&Host::name>("name"), field<&Host::online>("online"),
      field<&Host::heard>("heard", {.what = "seconds since 1970"}),
      field<&Host::without>("without", {.what = "why it has no GPUs"}),
      field<&Host::machine>("machine", {.what = "the machine that reports, in a text of its own for each of "
                                                "its starts; empty: its agent does not say"}),
      field<&Host::problem>("problem", {.what = "why it is not as it should be"}));
}

constexpr auto fields_of(const Team*) {
  using describe::field;
  return std::tuple(
      field<&Team::name>("name", {.shortest = 1, .required = true}),
      field<&Team::quota>("quota", {.what = "GPUs that it can count on", .least = 0, .most = kMaxGpus, .option = true}),
      field<&Team::may_borrow>("may_borrow"));
}
constexpr std::string_view schema_name_of(const Team*) { return "Team"; }

constexpr auto fields_of(const User*) {
  using describe::field;
  return std::tuple(
      field<&User::name>("name", {.shortest = 1, .required = true}),
      field<&User::team>("team", {.what = "that its GPUs count for", .option = true, .placeholder = "NAME"}),
      field<&User::role>("role", {.what = "what it may do", .option = true}),
      field<&User::max_gpus>("max_gpus",
                             {.what = "at once; 0: any number", .least = 0, .most = kMaxGpus, .option = true}),
      field<&User::max_priority>("max_priority",
                                 {.what = "that it may ask with", .least = -1000, .most = 1000, .option = true}),
      field<&User::idle_exempt>("idle_exempt", {.what = "its leases are never reclaimed as idle", .option = true}));
}

constexpr auto fields_of(const Event*) {
  using describe::field;
  return std::tuple(field<&Event::number>("number"), field<&Event::at>("at", {.what = "seconds since 1970"}),
                    field<&Event::actor>("actor", {.what = "a user, or pool"}), field<&Event::kind>("kind"),
                    field<&Event::lease>("lease", {.if_set = true}), field<&Event::subject>("subject"),
                    field<&Event::why>("why"));
}
constexpr std::string_view schema_name_of(const Event*) { return "Event"; }

}  // namespace xoe::pool
