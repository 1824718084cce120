// xoe bench compare: whether results differ by more than noise, or how they stand beside published ones.
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/command_line/parse/command_line.h"
#include "measure/cli/against.h"
#include "measure/cli/articles.h"
#include "measure/cli/compare.h"
#include "measure/cli/output_flags.h"
#include "measure/cli/verbs/verbs.h"

namespace xoe::bench {
namespace {

constexpr const char* kCompareExamples = R"(
Examples:
  xoe run -np 2 xoe bench train --repeat 5 --output before.json
  xoe run -np 2 xoe bench train --repeat 5 --output after.json
  xoe bench compare before.json after.json
  xoe bench compare before.json after.json --html compared.html
  xoe bench compare scaling.json --against articles --html articles.html

Results are those of `xoe bench train` and `xoe bench scale`, and files of measurements.)";

struct CompareFlags {
  std::vector<std::string> files;
  std::string svg;
  std::string against;
  std::uint64_t seed = 1;
  OutputFlags out;
};

Status compare(const CompareFlags& flags) {
  std::vector<std::pair<std::string, MeasurementFile>> files;
  for (const std::string& name : flags.files) {
    XOE_ASSIGN(auto file, read_measurements(name));
    files.emplace_back(name, std::move(file));
  }
  const std::string title = files.size() == 1 ? files.front().second.title : "";
  std::vector<Measurement> results = results_of(std::move(files));
  if (!flags.against.empty()) {
    XOE_ASSIGN(const auto articles, read_articles());
    XOE_ASSIGN(const Against against, stand_against(results, articles));
    return put_out(flags.out, against_text(against), to_json(against), [&against] { return against_page(against); });
  }
  Comparison comparison = compare_results(std::move(results), flags.seed);
  comparison.title = title;
  if (!flags.svg.empty()) XOE_TRY(write_file(flags.svg, comparison_svg(comparison)));
  return put_out(flags.out, comparison_text(comparison), to_json(comparison),
                 [&comparison] { return comparison_page(comparison); });
}

}  // namespace

void add_compare(CLI::App& app, char** /*argv*/, int& code) {
  const auto flags = std::make_shared<CompareFlags>();
  auto* verb = app.add_subcommand("compare", "results: differences, and whether they are noise");
  verb->footer(kCompareExamples);
  verb->add_option("FILE", flags->files, "results, of which the first is the baseline")->required()->expected(1, 1000);
  auto* against = tools::add_choice(*verb, "--against", flags->against, {"articles"},
                                    "published measurements, in place of the first result");
  tools::add_setting(*verb, "--seed", flags->seed, "of the bootstrap");
  add_output(*verb, flags->out);
  verb->add_option("--svg", flags->svg, "also write a picture: bars of the means")
      ->type_name("FILE")
      ->excludes(against);
  verb->callback([flags, &code] {
    if (const Status done = compare(*flags); !done) code = failed("compare", done.error());
  });
}

}  // namespace xoe::bench
