// What codecs keep is bounded by the names in use.
#include <gtest/gtest.h>

#include <string>

#include "core/engine/execute/compress/codec_store.h"

namespace xoe::engine {
namespace {

constexpr std::size_t kBytes = 1000;  // of a name's state

// Was the name known? Marks it as known.
bool use(CodecStore& store, const std::string& name) {
  Codecs& codecs = store.use(name, kBytes);
  return std::exchange(codecs.signature, 1) == 1;
}

TEST(CodecStore, NamesThatComeOnceAreForgottenAtTheLimit) {
  CodecStore store;
  store.set_limit(10 * 2 * kBytes);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(use(store, "once." + std::to_string(i)));
    EXPECT_LE(store.bytes(), 10 * 2 * kBytes);
  }
  EXPECT_TRUE(use(store, "once.999"));
}

TEST(CodecStore, NamesInUseStayWhateverTheLimitIs) {
  CodecStore store;
  store.set_limit(3 * kBytes);
  for (int step = 0; step < 50; ++step)
    for (int i = 0; i < 100; ++i) {
      const bool known = use(store, "layer." + std::to_string(i));
      if (step >= 2) {
        EXPECT_TRUE(known) << "layer " << i << " in step " << step;
      }
      if (i % 10 == 0) use(store, "metric." + std::to_string(step) + "." + std::to_string(i));
    }
  EXPECT_LE(store.names(), 102U);
}

TEST(CodecStore, OneNameTwiceInARowIsInUseToo) {
  CodecStore store;
  store.set_limit(kBytes);
  for (int step = 0; step < 10; ++step)
    for (int i = 0; i < 300; ++i) {
      const std::string name = "layer." + std::to_string(i);
      const bool known = use(store, name);
      if (step >= 2) {
        EXPECT_TRUE(known);
      }
      EXPECT_TRUE(use(store, name));
    }
}

TEST(CodecStore, NamesOutOfUseMakeRoom) {
  CodecStore store;
  store.set_limit(60 * 2 * kBytes);
  for (int step = 0; step < 10; ++step)
    for (int i = 0; i < 50; ++i) use(store, "first." + std::to_string(i));
  // Another model takes the place of the first.
  for (int step = 0; step < 20; ++step)
    for (int i = 0; i < 100; ++i) use(store, "second." + std::to_string(i));
  EXPECT_LE(store.names(), 100U);
  EXPECT_TRUE(use(store, "second.0"));
  EXPECT_FALSE(use(store, "first.0"));
}

// A name that comes rarely and may come again does not keep those that do not.
TEST(CodecStore, NamesOutOfUseMakeRoomBehindARareOne) {
  CodecStore store;
  store.set_limit(60 * 2 * kBytes);
  use(store, "rare");
  for (int i = 0; i < 1000; ++i) use(store, "often");
  use(store, "rare");
  for (int step = 0; step < 4; ++step)
    for (int i = 0; i < 50; ++i) use(store, "first." + std::to_string(i));
  for (int step = 0; step < 10; ++step)
    for (int i = 0; i < 100; ++i) use(store, "second." + std::to_string(i));
  EXPECT_LE(store.names(), 101U);
  EXPECT_TRUE(use(store, "rare"));
  EXPECT_FALSE(use(store, "first.0"));
}

TEST(CodecStore, BelowTheLimitNothingIsForgotten) {
  CodecStore store;
  for (int i = 0; i < 1000; ++i) use(store, "name." + std::to_string(i));
  EXPECT_TRUE(use(store, "name.0"));
  EXPECT_EQ(store.names(), 1000U);
}

}  // namespace
}  // namespace xoe::engine
