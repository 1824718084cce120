// What ranks compare of their collectives: it comes from other processes.
#include "core/backend/fingerprint.h"

#include <cstring>

#include <gtest/gtest.h>

namespace xoe {
namespace {

TEST(Fingerprint, SaysWhatWasCalled) {
  Fingerprint fingerprint{};
  std::vector<float> data(10);
  fill(fingerprint,
       make_allreduce(ConstTensor(data.data(), 10), Tensor(data.data(), 10), ReduceOp::kSum, {.name = "conv1.weight"}));
  EXPECT_EQ(to_string(fingerprint), "allreduce(float32, sum, 10 elements) 'conv1.weight'");
}

TEST(Fingerprint, HasATextWhateverItsBytes) {
  for (const int byte : {0x00, 0x41, 0x7f, 0xff}) {
    Fingerprint fingerprint;
    std::memset(static_cast<void*>(&fingerprint), byte, sizeof fingerprint);
    EXPECT_LT(to_string(fingerprint).size(), 400U) << byte;  // a name has its 60 bytes at most
  }
}

}  // namespace
}  // namespace xoe
