// xoe data make-xray: phantoms of chest radiographs whose best possible AUROC is known.
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/cli/phantom/phantom_set.h"
#include "data/cli/verbs/progress_line.h"
#include "data/cli/verbs/verbs.h"

namespace xoe::tools {
namespace {

using data::synth::PhantomSetOptions;
using data::synth::PhantomSetReport;

struct MakeXrayRequest {
  PhantomSetOptions options;
  std::int64_t test = -1;  // below 0: three tenths of the others, as in ChestX-ray14
  bool json = false;
};

void print_report(const MakeXrayRequest& request, const PhantomSetReport& report) {
  const PhantomSetOptions& options = request.options;
  if (request.json) {
    nlohmann::ordered_json labels = nlohmann::ordered_json::object();
    for (const auto& one : report.labels)
      labels[one.finding] = {{"ideal_auroc", one.ideal_auroc}, {"monte_carlo_error", one.monte_carlo_error}};
    const nlohmann::ordered_json out = {{"directory", options.directory},
                                        {"images", report.files.images},
                                        {"test", report.files.validation},
                                        {"bytes", report.files.bytes},
                                        {"seconds", report.files.seconds},
                                        {"mean_ideal_auroc", report.mean_ideal_auroc},
                                        {"labels", labels}};
    fmt::print("{}\n", json_text(out));
    return;
  }
  fmt::print("{}: {} training and {} test images, {}, {:.1f} s\n", options.directory, report.files.images,
             report.files.validation, human_bytes(report.files.bytes), report.files.seconds);
  fmt::print("phantoms: nothing medical follows from them. The best AUROC that can be reached:\n");
  for (const auto& one : report.labels)
    fmt::print("  {:20}{:.4f} ± {:.4f}\n", one.finding, one.ideal_auroc, one.monte_carlo_error);
  fmt::print("  {:20}{:.4f}\n", "mean", report.mean_ideal_auroc);
}

Result<int> make_xray(const MakeXrayRequest& request) {
  catch_signals();
  const auto work = [&](const data::synth::Progress& progress) { return make_phantom_set(request.options, progress); };
  XOE_ASSIGN(const PhantomSetReport report, with_progress("xoe data make-xray", !request.json, work));
  print_report(request, report);
  return 0;
}

void add_options(CLI::App& verb, MakeXrayRequest& request) {
  PhantomSetOptions& options = request.options;
  verb.add_option("DIR", options.directory, "the directory to write; created if missing")->required();
  add_setting(verb, "--images", options.images, "images for training and validation");
  verb.add_option("--test", request.test, "test images (default: three tenths of --images, as in ChestX-ray14)");
  add_setting(verb, "--size", options.size, "height and width, pixels: a multiple of 32, to 1024");
  add_setting(verb, "--wrong-labels", options.wrong_labels,
              "share of the positive labels that are wrong, and as many negative ones; 0 to 0.5");
  add_setting(verb, "--samples", options.samples, "draws, with and without a lesion each, for the ideal AUROC");
  add_setting(verb, "--seed", options.seed, "seed of everything random");
  add_setting(verb, "--threads", options.threads, "0: all cores");
  verb.add_flag("--json", request.json, "print the result as JSON");
}

}  // namespace

void add_make_xray(CLI::App& app, int& code) {
  CLI::App* verb = app.add_subcommand(
      "make-xray", "render phantoms in the layout of NIH ChestX-ray14, with the best AUROC that can be reached");
  const auto request = std::make_shared<MakeXrayRequest>();
  add_options(*verb, *request);
  verb->footer(
      "Lesions of 14 kinds lie hidden in noise; an ideal observer's AUROC on them is known, and phantoms.json tells "
      "it.\n"
      "They are no radiographs: nothing medical follows.\n\n"
      "Examples:\n  xoe data make-xray --images 20000 --size 32 phantoms\n"
      "  xoe data make-xray --images 80000 --size 224 --wrong-labels 0.1 phantoms");
  verb->callback([request, &code] {
    PhantomSetOptions& options = request->options;
    options.test = request->test >= 0 ? request->test : options.images * 3 / 10;
    code = finish("make-xray", make_xray(*request), request->json);
  });
}

}  // namespace xoe::tools
