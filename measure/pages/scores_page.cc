// The page of a network's scores.
#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/plot.h"
#include "core/base/text.h"
#include "measure/pages/result_page.h"
#include "measure/pages/scores.h"

namespace xoe::pages {
namespace {

// AUROCs on ChestX-ray14: X. Wang et al., ChestX-ray8, CVPR 2017; P. Rajpurkar et al., CheXNet, 2017; and two
// reproductions, as their documentation tells: github.com/jrzech/reproduce-chexnet (J. Zech, 2022) and
// github.com/arnoweng/CheXNet (X. Weng).
struct Published {
  std::string_view label;
  std::array<double, 4> auroc;  // Wang, CheXNet, Zech, Weng
};
constexpr std::array<Published, 14> kPublished = {{
    {"Atelectasis", {0.716, 0.8094, 0.8180, 0.8294}},
    {"Cardiomegaly", {0.807, 0.9248, 0.9090, 0.9165}},
    {"Effusion", {0.784, 0.8638, 0.8827, 0.8870}},
    {"Infiltration", {0.609, 0.7345, 0.7156, 0.7143}},
    {"Mass", {0.706, 0.8676, 0.8377, 0.8597}},
    {"Nodule", {0.671, 0.7802, 0.7756, 0.7873}},
    {"Pneumonia", {0.633, 0.7680, 0.7617, 0.7745}},
    {"Pneumothorax", {0.806, 0.8887, 0.8776, 0.8726}},
    {"Consolidation", {0.708, 0.7901, 0.8002, 0.8142}},
    {"Edema", {0.835, 0.8878, 0.8945, 0.8932}},
    {"Emphysema", {0.815, 0.9371, 0.9316, 0.9254}},
    {"Fibrosis", {0.769, 0.8047, 0.8251, 0.8304}},
    {"Pleural_Thickening", {0.708, 0.8062, 0.7889, 0.7831}},
    {"Hernia", {0.767, 0.9164, 0.9175, 0.9104}},
}};
constexpr std::array<double, 4> kPublishedMean = {0.738, 0.8414, 0.8383, 0.843};

constexpr PlotPanel::Place kCurvePlace = {.left = 46, .top = 8, .width = 196, .height = 196};

std::string cells(const std::array<double, 4>* published) {
  std::string html;
  for (std::size_t i = 0; i < 4; ++i)
    html += published != nullptr ? fmt::format("<td>{:.{}f}", (*published)[i], i == 0 ? 3 : 4) : "<td>";
  return html;
}

// "Pleural_Thickening" may break its line at the underscore.
std::string with_spaces(std::string label) {
  std::ranges::replace(label, '_', ' ');
  return label;
}
std::string label_text(const std::string& label) { return html_text(with_spaces(label)); }

std::string row(const LabelQuality& label, bool phantoms) {
  std::string html = "<tr><th>" + label_text(label.label);
  if (label.auroc) {
    const stats::Interval interval = label.auroc->interval();
    const bool over = label.ideal && label.ideal->exceeded_by(*label.auroc);
    html += fmt::format("<td{}>{:.4f}<td>{:.3f} to {:.3f}<td>{}", over ? " class=\"over\"" : "", label.auroc->value,
                        interval.low, interval.high, label.auroc->positives);
  } else {
    html += "<td colspan=\"3\" class=\"faint\">too few images have it, or lack it";
  }
  if (phantoms)
    html += label.ideal ? fmt::format("<td>{:.4f} ± {:.4f}<td>{}", label.ideal->auroc, label.ideal->error,
                                      label.ideal->on_images ? fmt::format("{:.4f}", label.ideal->on_images->value)
                                                             : std::string())
                        : "<td><td>";
  const auto* published = std::ranges::find(kPublished, label.label, &Published::label);
  return html + cells(published == kPublished.end() ? nullptr : &published->auroc) + "\n";
}

std::string table(const ScoresRecord& record) {
  std::string html =
      "<h2>AUROC of each finding</h2>\n<div class=\"tablebox\"><table class=\"scores\"><thead><tr><th><th>this "
      "network<th>95 % interval<th>images with it";
  if (record.phantoms) html += "<th>ideal observer<th>ideal on these images";
  html += "<th>Wang 2017<th>CheXNet<th>Zech 2022<th>Weng</thead><tbody>\n";
  for (const LabelQuality& label : record.labels) html += row(label, record.phantoms);
  html += fmt::format("<tr><th>mean<td>{:.4f}<td>{:.3f} to {:.3f}<td>", record.mean, record.interval.low,
                      record.interval.high);
  if (record.phantoms) {
    double ideal = 0;
    double on_images = 0;
    std::size_t count = 0;
    for (const LabelQuality& label : record.labels) {
      if (!label.auroc || !label.ideal) continue;
      ideal += label.ideal->auroc;
      on_images += label.ideal->on_images ? label.ideal->on_images->value : 0;
      ++count;
    }
    const double by = static_cast<double>(std::max<std::size_t>(count, 1));
    html += count == 0 ? "<td><td>" : fmt::format("<td>{:.4f}<td>", ideal / by);
    if (record.share_of_ideal_on_images()) html += fmt::format("{:.4f}", on_images / by);
  }
  return html + cells(&kPublishedMean) + "</tbody></table></div>\n";
}

// What the columns may be compared for.
std::string remarks(const ScoresRecord& record) {
  std::string html =
      "<p class=\"faint\">Intervals are DeLong's, of images that are independent of each other. Wang 2017: X. Wang et "
      "al., ChestX-ray8; CheXNet: P. Rajpurkar et al., 2017; Zech 2022 and Weng reproduced it. ";
  if (record.phantoms)
    return html +
           "Their figures are of radiographs and stand here for orientation: nothing follows from a comparison with "
           "phantoms. The ideal observer is the likelihood ratio; what is significantly above it (one-sided p &lt; "
           "0.001, the same images) has seen what it should not have.</p>\n";
  return html +
         "Both reproductions divide the patients at random, 70 % for training, 10 % for validation, 20 % for the test, "
         "so they were tested on other images than test_list.txt. Reproductions differ by up to 0.03 for a "
         "finding.</p>\n";
}

std::string curve(const LabelQuality& label) {
  constexpr double kWidth = 256;
  constexpr double kHeight = 240;
  Svg svg(kWidth, kHeight, kPageColors);
  PlotPanel panel(svg, kCurvePlace, {.low = 0, .high = 1}, {.low = 0, .high = 1}, PlotUnit::kNumber, {.label = ""});
  const std::array<PlotPoint, 2> chance = {{{0, 0}, {1, 1}}};
  panel.line(chance, "var(--grid)", 1.5);
  std::vector<PlotPoint> points;
  for (const stats::RocPoint& one : label.curve) points.push_back({one.false_positives, one.true_positives});
  panel.line(points, "var(--second)", 2.2);
  const std::string ideal = label.ideal ? fmt::format(" <span>ideal {:.3f}</span>", label.ideal->auroc) : "";
  return fmt::format("<div class=\"plot\"><h3>{} <span>{:.3f}</span>{}</h3>\n{}</div>\n", label_text(label.label),
                     label.auroc->value, ideal, std::move(svg).finish());
}

std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

std::vector<KeyFigure> figures(const ScoresRecord& record) {
  std::vector<KeyFigure> figures = {
      {fmt::format("{:.4f}", record.mean),
       fmt::format("mean AUROC; 95 % interval {:.3f} to {:.3f}", record.interval.low, record.interval.high)}};
  if (const auto share = record.share_of_ideal_on_images())
    figures.push_back({percent(*share), "of the ideal observer's AUROC above 0.5, on these images"});
  else if (const auto general = record.share_of_ideal())
    figures.push_back({percent(*general), "of the ideal observer's AUROC above 0.5"});
  figures.push_back({fmt::format("{}", record.images), "images"});
  return figures;
}

}  // namespace

std::string scores_page(const ScoresRecord& record) {
  Page page{.title = record.title, .body = {}, .data = {}, .scripts = {}};
  page.body = head_html(record.title, record.data + ": " + record.split);
  std::vector<std::string> notes;
  if (record.phantoms) notes.emplace_back("These are phantoms: nothing medical follows.");
  for (const std::string& label : record.exceeding())
    notes.push_back(with_spaces(label) + " is significantly above what can be reached: the test images are not new.");
  page.body += note_list(notes) + key_figures(figures(record)) + table(record) + remarks(record);
  page.body +=
      "<h2>ROC curves</h2>\n<p class=\"faint\">Across: the share of images without the finding that raise it; "
      "up: the share of images with it that are found.</p>\n<div class=\"curves\">\n";
  for (const LabelQuality& label : record.labels)
    if (label.auroc) page.body += curve(label);
  page.body += "</div>\n";
  page.body += fact_tables({{"Configuration", record.facts}});
  return html_of(page);
}

std::string scores_summary(const ScoresRecord& record) {
  std::string line =
      fmt::format("mean AUROC {:.4f} ({:.4f} to {:.4f})", record.mean, record.interval.low, record.interval.high);
  if (const auto share = record.share_of_ideal())
    line += fmt::format("; {} of what the ideal observer reaches above 0.5", percent(*share));
  if (const auto share = record.share_of_ideal_on_images())
    line += fmt::format(", {} of that on these images", percent(*share));
  const std::vector<std::string> over = record.exceeding();
  if (record.phantoms && over.empty()) line += "; no finding is significantly above the ideal";
  for (const std::string& label : over) line += fmt::format("; {} is significantly above the ideal", label);
  return line;
}

}  // namespace xoe::pages
