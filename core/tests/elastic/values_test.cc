// The program's own variables as an elastic state.
#include "xoe/elastic.h"

#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tests/comm/thread_group.h"

namespace xoe::elastic {
namespace {

using ::testing::HasSubstr;

struct Variables {
  std::array<float, 3> weights = {};
  std::int64_t step = 0;
  std::string position;
  std::vector<int> history;

  void fill(int rank) {
    weights.fill(static_cast<float>(rank) + 0.5F);
    step = rank + 10;
    position = std::string(static_cast<std::size_t>(rank) * 7, 'x') + std::to_string(rank);
    history.assign(static_cast<std::size_t>(rank), rank);
  }
  void add_to(Values& values) {
    values.add("weights", Tensor(weights.data(), weights.size()));
    values.add("step", step);
    values.add("position", position);
    values.add("history", history);
  }
  bool operator==(const Variables&) const = default;
};

Variables filled(int rank) {
  Variables variables;
  variables.fill(rank);
  return variables;
}

TEST(ElasticValues, RestoreGivesWhatSaveHasSeen) {
  Variables variables = filled(3);
  Values values;
  variables.add_to(values);
  ASSERT_TRUE(values.save());
  variables.fill(1);
  ASSERT_TRUE(values.restore());
  EXPECT_EQ(variables, filled(3));
  variables.fill(5);  // larger than the copy
  ASSERT_TRUE(values.restore());
  EXPECT_EQ(variables, filled(3));
}

TEST(ElasticValues, SyncGivesAllRanksThoseOfTheSource) {
  for (const int source : {0, 2}) {
    testing::run_ranks(3, [&](Communicator& comm) {
      Variables variables = filled(comm.rank() + 1);
      Values values;
      variables.add_to(values);
      const Status synced = values.sync(comm, source);
      EXPECT_TRUE(synced) << synced.error().to_string();
      EXPECT_EQ(variables, filled(source + 1)) << "rank " << comm.rank();
    });
  }
}

TEST(ElasticValues, OtherValuesAreRefusedOnAllRanksAndStay) {
  testing::run_ranks(3, [](Communicator& comm) {
    Variables variables = filled(comm.rank());
    Values values;
    variables.add_to(values);
    std::array<double, 2> more = {1, 2};
    if (comm.rank() == 1) values.add("more", Tensor(more.data(), more.size()));
    const Status synced = values.sync(comm, 0);
    ASSERT_FALSE(synced);
    EXPECT_EQ(synced.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(synced.error().message(), comm.rank() == 1
                                              ? HasSubstr("registers 'more' of 16 bytes, where rank 0 has nothing more")
                                              : HasSubstr("rank 1 registers other values than rank 0"));
    EXPECT_EQ(variables, filled(comm.rank()));
  });
}

}  // namespace
}  // namespace xoe::elastic
