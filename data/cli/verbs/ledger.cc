// xoe data ledger: proves that a training consumed each record of an epoch exactly once.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "data/cli/verbs/verbs.h"
#include "data/ledger/check_ledger.h"

namespace xoe::tools {
namespace {

using data::EpochProof;
using data::LedgerPlace;
using data::LedgerProof;
using Json = nlohmann::ordered_json;

constexpr int kNotExact = 3;  // records are missing, doubled or unknown
constexpr int kNoProof = 4;   // the ledger is damaged, or lacks what a rank consumed
constexpr int kNotEnded = 5;  // the epoch that was asked for has not ended
constexpr std::size_t kShown = 10;

struct LedgerRequest {
  std::vector<std::string> folders;
  std::optional<std::int64_t> epoch;
  std::optional<std::int64_t> records;
  bool allow_rest = false;
  bool json = false;
};

bool good(const EpochProof& epoch, bool allow_rest) {
  return epoch.exact() || (allow_rest && epoch.exact_but_for_rest());
}

std::string place_text(const LedgerPlace& at) {
  return fmt::format("step {} on rank {} (world {})", at.step, at.rank, at.world);
}

template <class Items, class ToText>
std::string first_of(const Items& items, std::int64_t count, ToText text_of) {
  std::string text;
  for (std::size_t i = 0; i < std::min(items.size(), kShown); ++i) text += (i > 0 ? ", " : "") + text_of(items[i]);
  const auto shown = static_cast<std::int64_t>(std::min(items.size(), kShown));
  return count > shown ? fmt::format("{} and {} more", text, count - shown) : text;
}

void print_epoch(const EpochProof& epoch, const LedgerProof& proof, bool allow_rest) {
  const bool harmless = good(epoch, allow_rest) || (!epoch.ended && epoch.doubled_count + epoch.unknown_count == 0);
  const std::string what =
      epoch.exact() ? "each record exactly once"
      : epoch.ended ? fmt::format("{} of {}", epoch.records, counted(proof.records, "record"))
                    : fmt::format("{} of {} so far; it has not ended", epoch.records, counted(proof.records, "record"));
  fmt::print("{}: {}, in {}\n", paint(harmless ? Paint::kGood : Paint::kBad, fmt::format("epoch {}", epoch.epoch)),
             what, counted(epoch.steps, "step"));
  const auto number = [](std::int64_t record) { return std::to_string(record); };
  if (epoch.ended && epoch.missing_count > 0) {
    fmt::print("  missing: {}\n", first_of(epoch.missing, epoch.missing_count, number));
    if (epoch.exact_but_for_rest())
      fmt::print("  these are fewer than the {} of a step: the rest of an epoch that fills no step (--allow-rest)\n",
                 epoch.largest_step);
  }
  for (std::size_t i = 0; i < std::min(epoch.doubled.size(), kShown); ++i) {
    const auto& doubled = epoch.doubled[i];
    fmt::print("  doubled: {}, in {}\n", doubled.record,
               first_of(doubled.places, std::ssize(doubled.places), place_text));
  }
  if (epoch.doubled_count > static_cast<std::int64_t>(kShown))
    fmt::print("  doubled: {} more\n", epoch.doubled_count - static_cast<std::int64_t>(kShown));
  if (epoch.unknown_count > 0)
    fmt::print("  not in the data set: {}\n", first_of(epoch.unknown, epoch.unknown_count, number));
}

void print(const LedgerProof& proof, bool allow_rest) {
  for (const EpochProof& epoch : proof.epochs) print_epoch(epoch, proof, allow_rest);
  std::vector<LedgerPlace> steps = proof.undone;
  const auto key = [](const LedgerPlace& at) { return std::pair(at.world, at.step); };
  steps.erase(std::ranges::unique(steps, {}, key).begin(), steps.end());
  for (const LedgerPlace& at : steps)
    fmt::print("step {} of world {} was in flight, and is not counted\n", at.step, at.world);
  if (!proof.silent.empty())
    fmt::print("{} of {}: nothing tells what was consumed there; is a folder missing?\n",
               paint(Paint::kBad, "no proof"), first_of(proof.silent, std::ssize(proof.silent), place_text));
  fmt::print("{} in {}\n", counted(proof.last_step, "step"), counted(proof.worlds, "world"));
}

Json to_json(const LedgerPlace& at) { return {{"world", at.world}, {"step", at.step}, {"rank", at.rank}}; }
Json to_json(const std::vector<LedgerPlace>& places) {
  Json list = Json::array();
  for (const LedgerPlace& at : places) list.push_back(to_json(at));
  return list;
}

Json to_json(const EpochProof& epoch) {
  Json doubled = Json::array();
  for (const auto& one : epoch.doubled) doubled.push_back({{"record", one.record}, {"places", to_json(one.places)}});
  return {{"epoch", epoch.epoch},
          {"exact", epoch.exact()},
          {"exact_but_for_rest", epoch.exact_but_for_rest()},
          {"ended", epoch.ended},
          {"steps", epoch.steps},
          {"records", epoch.records},
          {"missing", epoch.missing_count},
          {"doubled", epoch.doubled_count},
          {"unknown", epoch.unknown_count},
          {"first_missing", epoch.missing},
          {"first_doubled", std::move(doubled)},
          {"first_unknown", epoch.unknown}};
}

Json to_json(const LedgerProof& proof) {
  Json epochs = Json::array();
  for (const EpochProof& epoch : proof.epochs) epochs.push_back(to_json(epoch));
  return {{"records", proof.records},           {"worlds", proof.worlds},
          {"last_step", proof.last_step},       {"epochs", std::move(epochs)},
          {"in_flight", to_json(proof.undone)}, {"silent", to_json(proof.silent)}};
}

Result<int> check(const LedgerRequest& request) {
  XOE_ASSIGN(const auto lines, data::read_ledger(request.folders));
  XOE_ASSIGN(const LedgerProof proof, data::check_ledger(lines, request.records, request.epoch));
  if (request.json) {
    fmt::print("{}\n", json_text(to_json(proof)));
  } else {
    print(proof, request.allow_rest);
  }
  if (!proof.silent.empty()) return kNoProof;
  bool exact = true;
  bool ended = true;
  for (const EpochProof& epoch : proof.epochs) {
    exact = exact && (epoch.ended ? good(epoch, request.allow_rest) : epoch.doubled_count + epoch.unknown_count == 0);
    ended = ended && epoch.ended;
  }
  if (!exact) return kNotExact;
  return ended || !request.epoch ? 0 : kNotEnded;
}

}  // namespace

void add_ledger(CLI::App& app, int& code) {
  CLI::App* verb = app.add_subcommand("ledger", "prove that a training consumed each record exactly once");
  const auto request = std::make_shared<LedgerRequest>();
  verb->add_option("DIR", request->folders, "what xoe train --ledger wrote; one of each host")->required();
  verb->add_option("--epoch", request->epoch, "only this one, which must have ended; they count from 0")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--records", request->records, "so many are in the data set; default: as the ledger says")
      ->check(CLI::NonNegativeNumber);
  verb->add_flag("--allow-rest", request->allow_rest,
                 "records at the end of an epoch that fill no step may be missing");
  verb->add_flag("--json", request->json, "print the result as JSON");
  verb->footer(
      "Exit codes: 0: each epoch that has ended has each record exactly once; 3: it has not; 4: the ledger is damaged "
      "or\nincomplete, and proves nothing; 5: the epoch has not ended; 1: the ledger cannot be read.\n"
      "Example:\n  xoe data ledger --epoch 0 runs/a/ledger");
  verb->callback([request, &code] {
    const auto done = check(*request);
    code = finish("ledger", done, request->json);
    if (!done && done.error().code() == Code::kDataLoss && code == kFailed) code = kNoProof;
  });
}

}  // namespace xoe::tools
