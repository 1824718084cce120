// Agreement of ranks that share one host: whichever rank makes progress seals what is complete.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/negotiate/agreement.h"

namespace xoe::engine {

class HostAgreement final : public Agreement {
 public:
  HostAgreement(SharedLayout& memory, HostBlocks& blocks, AgreementMembers members, int capacity);

  Result<bool> progress(bool may_seal) override;
  std::string error(const LogLine& line, std::string_view name) const override;
  std::optional<std::vector<MissingRank>> missing(int entry, std::uint8_t generation) override;
  bool speaks_for_host() const noexcept override { return false; }

 private:
  std::uint64_t completed_by_all_ = 0;  // lower bound of the table's
};

}  // namespace xoe::engine
