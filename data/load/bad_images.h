// Bad images that were left out, each to be told of once, though every epoch comes upon them again.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include "xoe/data/records.h"

namespace xoe::data {

// One thread.
class BadImages {
 public:
  // `message` names the image. Those that are known are not counted again.
  void add(std::string_view message);

  // "2 bad images left out: a: why; b: why", of those added since the last call; empty: there are none.
  std::string take();

 private:
  std::unordered_set<std::size_t> known_;  // hashes of messages
  std::unique_ptr<BadRecords> untold_ = std::make_unique<BadRecords>();
};

}  // namespace xoe::data
