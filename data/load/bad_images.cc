#include "data/load/bad_images.h"

#include <functional>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::data {

void BadImages::add(std::string_view message) {
  if (known_.insert(std::hash<std::string_view>()(message)).second) untold_->add(std::string(message));
}

std::string BadImages::take() {
  if (untold_->count() == 0) return {};
  const auto told = std::exchange(untold_, std::make_unique<BadRecords>());
  return fmt::format("{} left out: {}", counted(told->count(), "bad image"), told->text());
}

}  // namespace xoe::data
