// xoe bench compare: whether results of `xoe bench train` differ by more than noise.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "pages/page.h"
#include "tools/bench/compare.h"
#include "tools/bench/verbs/verbs.h"

namespace xoe::bench {
namespace {

constexpr const char* kCompareExamples = R"(
Examples:
  xoe run -np 2 xoe bench train --repeat 5 --output before.json
  xoe run -np 2 xoe bench train --repeat 5 --output after.json
  xoe bench compare before.json after.json
  xoe bench compare before.json after.json --html compared.html)";

struct CompareFlags {
  std::vector<std::string> files;
  std::uint64_t seed = 1;
  bool json = false;
  std::string html;
  bool overwrite = false;
};

Status compare(const CompareFlags& flags) {
  std::vector<NamedResult> results;
  for (const std::string& file : flags.files) {
    XOE_ASSIGN(auto result, read_train_result(file));
    results.push_back({file, std::move(result)});
  }
  const Comparison comparison = compare_results(std::move(results), flags.seed);
  if (!flags.html.empty()) XOE_TRY(pages::write_page(flags.html, comparison_page(comparison), flags.overwrite));
  fmt::print("{}", flags.json
                       ? to_json(comparison).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                       : comparison_text(comparison));
  return {};
}

}  // namespace

void add_compare(CLI::App& app, char** /*argv*/, int& code) {
  const auto flags = std::make_shared<CompareFlags>();
  auto* verb = app.add_subcommand("compare", "results of `xoe bench train`: differences, and whether they are noise");
  verb->footer(kCompareExamples);
  verb->add_option("FILE", flags->files, "results, of which the first is the baseline")->required()->expected(1, 1000);
  verb->add_option("--seed", flags->seed, "of the bootstrap")->capture_default_str();
  verb->add_flag("--json", flags->json, "print one JSON object instead of the table");
  verb->add_option("--html", flags->html, "also write a page with a plot")->type_name("FILE");
  verb->add_flag("--overwrite", flags->overwrite, "replace a file that is no page of Xoe");
  verb->callback([flags, &code] {
    if (const Status done = compare(*flags); !done) code = failed("compare", done.error());
  });
}

}  // namespace xoe::bench
