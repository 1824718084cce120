#include "core/trace/interned_names.h"

#include "core/trace/text.h"

namespace xoe::trace {

std::uint32_t TimelineNames::intern(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const std::string cut = name.size() > kLongest ? shortened_text(name, kLongest) : std::string();
  if (!cut.empty()) name = cut;
  if (const auto known = ids_.find(name); known != ids_.end()) return known->second;
  const std::uint32_t id = last_ + 1;
  if (id == kLimit - 1) name = kOverflow;  // the last id is shared by all further names
  if (id == kLimit) return last_;
  last_ = id;
  auto& block = blocks_[id / kBlock];
  if (!block) block = std::make_unique<Block>();
  append_json_text((*block)[id % kBlock], name);
  ids_.emplace(name, id);
  return id;
}

}  // namespace xoe::trace
