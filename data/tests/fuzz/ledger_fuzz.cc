// A ledger: any bytes. Lines that are read are written again as they were, and a check of them ends.
#include "core/testing/fuzz/memory_file.h"
#include "data/ledger/check_ledger.h"
#include "target.h"

namespace {

// The checksums of lines are put right, so that more than the first one is read.
std::string with_checksums(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    all += xoe::data::ledger_checked(std::string(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

}  // namespace

XOE_FUZZ_TARGET(ledger_fuzz) {
  using namespace xoe::data;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  LedgerLines raw;
  static_cast<void>(parse_ledger(text, "raw", raw));

  const std::string checked = with_checksums(text);
  LedgerLines lines;
  if (!parse_ledger(checked, "checked", lines)) return 0;
  std::string again;
  for (const auto& one : lines.data) again += ledger_line(one);
  for (const auto& one : lines.worlds) again += ledger_line(one);
  for (const auto& one : lines.steps) again += ledger_line(one);
  for (const auto& one : lines.done) again += ledger_line(one);
  LedgerLines reread;
  xoe::require(parse_ledger(again, "checked", reread).has_value());
  xoe::require(reread.data == lines.data && reread.worlds == lines.worlds && reread.steps == lines.steps &&
               reread.done == lines.done);
  const auto proof = check_ledger(lines);
  if (proof)
    for (const EpochProof& epoch : proof->epochs)
      xoe::require(epoch.records + epoch.missing_count == proof->records && epoch.doubled_count <= epoch.records);
  return 0;
}
