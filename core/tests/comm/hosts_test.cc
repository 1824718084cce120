// Groups over several hosts: processes of this machine, of which only those of one host share memory.

#include "core/tests/comm/conformance.h"
#include "core/tests/comm/process_group.h"

namespace xoe::testing {
namespace {

struct Layout {
  const char* name;
  std::vector<int> hosts;
};

class Hosts : public ::testing::TestWithParam<Layout> {};

// All types and reductions with three ranks, for uneven hosts.
ConformanceGrid grid_of(const std::vector<int>& hosts) {
  const auto size = static_cast<int>(hosts.size());
  return size == 3 ? full_grid(size, /*shared=*/false) : thin_grid(size, /*shared=*/false);
}

TEST_P(Hosts, Conformance) {
  const auto& hosts = GetParam().hosts;
  ProcessGroup(hosts, [&](Communicator& communicator) {
    if (communicator.backend_name() != "hierarchical") return std::string(communicator.backend_name());
    return check_conformance(communicator, grid_of(hosts));
  }).expect_success();
}

TEST(HostsOnGlooAlone, Conformance) {
  const std::vector<int> hosts{0, 0, 1};
  ConformanceGrid grid = grid_of(hosts);
  grid.in_rank_order = true;
  ProcessGroup(hosts,
               [&](Communicator& communicator) {
                 if (communicator.backend_name() != "gloo") return std::string(communicator.backend_name());
                 return check_conformance(communicator, grid);
               },
               {{"XOE_BACKEND", "gloo"}})
      .expect_success();
}

std::vector<Layout> layouts() {
  if (XOE_SANITIZED != 0) return {{"Mixed", {0, 1, 1, 2}}};
  return {{"OneEach", {0, 1}},   {"TwoByTwo", {0, 0, 1, 1}}, {"Interleaved", {0, 1, 0, 1}},
          {"Uneven", {0, 0, 1}}, {"ThreeHosts", {0, 1, 2}},  {"Mixed", {0, 1, 1, 0, 2, 2, 0}}};
}

INSTANTIATE_TEST_SUITE_P(Layouts, Hosts, ::testing::ValuesIn(layouts()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace xoe::testing
