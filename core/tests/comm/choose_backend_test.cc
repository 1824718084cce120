// The choice of a job's backend by the hosts of its ranks and the user's settings.
#include "core/backend/choose_backend.h"

#include <gmock/gmock.h>

namespace xoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ChooseBackend, ByWhereTheRanksAre) {
  for (const bool by_mpi : {false, true}) EXPECT_TRUE(choose_backend({}, false, by_mpi)->shm);
  const auto several = choose_backend({}, true, false).value();
  EXPECT_FALSE(several.shm || several.flat);
  EXPECT_THAT(several.nets, ElementsAre("gloo"));
  EXPECT_THAT(choose_backend({}, true, true)->nets, ElementsAre("mpi", "gloo"));
}

TEST(ChooseBackend, AsTheUserWants) {
  for (const char* const name : {"gloo", "mpi", "nccl"}) {
    const auto flat = choose_backend({.backend = name}, false, false).value();
    EXPECT_TRUE(flat.flat) << name;
    EXPECT_THAT(flat.nets, ElementsAre(name));
  }
  const auto over_mpi = choose_backend({.net = "mpi"}, true, false).value();
  EXPECT_FALSE(over_mpi.flat);
  EXPECT_THAT(over_mpi.nets, ElementsAre("mpi"));
}

TEST(ChooseBackend, OnlyGlooEncrypts) {
  const auto several = choose_backend({.encrypt = true}, true, true).value();
  EXPECT_TRUE(several.encrypt);
  EXPECT_THAT(several.nets, ElementsAre("gloo")) << "mpi is not even tried";
  for (const char* const name : {"mpi", "nccl"}) {
    EXPECT_THAT(choose_backend({.backend = name, .encrypt = true}, true, false).error().message(),
                HasSubstr(std::string(name) + " does not encrypt"));
    EXPECT_THAT(choose_backend({.net = name, .encrypt = true}, true, false).error().message(),
                HasSubstr(std::string(name) + " does not encrypt"));
  }
}

TEST(ChooseBackend, WhatCannotBe) {
  EXPECT_THAT(choose_backend({.backend = "ring"}, false, false).error().message(),
              HasSubstr("XOE_BACKEND=ring: expected auto, shm, hierarchical, gloo, mpi, nccl"));
  EXPECT_THAT(choose_backend({.net = "shm"}, false, false).error().message(), HasSubstr("XOE_NET=shm: expected auto"));
  EXPECT_THAT(choose_backend({.backend = "shm"}, true, false).error().message(), HasSubstr("share no memory"));
  EXPECT_THAT(choose_backend({.deterministic = "yes"}, true, false).error().message(),
              HasSubstr("XOE_DETERMINISTIC=yes: expected placement, placement-free"));
  EXPECT_THAT(choose_backend({.net = "nccl", .deterministic = "placement-free"}, true, false).error().message(),
              HasSubstr("nccl combines ranks in an order of its own"));
}

}  // namespace
}  // namespace xoe
