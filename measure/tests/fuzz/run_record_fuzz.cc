// Run folders: the bytes are metrics.jsonl, environment.json, doctor.json and timeline.json, with a byte 0x1e between
// them. Whatever they hold, there is a record of finite numbers and a page of it that shows no control character.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/testing/fuzz/memory_file.h"
#include "measure/pages/report_page.h"
#include "measure/pages/run_record.h"
#include "measure/pages/timeline_figure.h"
#include "target.h"

namespace {

constexpr char kBetween = '\x1e';
constexpr std::array kNames{"metrics.jsonl", "environment.json", "doctor.json", "timeline.json"};
constexpr xoe::pages::ViewOptions kView = {
    .events = 1 << 8, .limits = {.line_bytes = 1 << 12, .foreign_bytes = 1 << 20, .events = 1 << 12}};

void put(const std::string& path, std::string_view content) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  xoe::require(file != nullptr);
  if (!content.empty()) xoe::require(std::fwrite(content.data(), 1, content.size(), file) == content.size());
  xoe::require(std::fclose(file) == 0);
}

void check(const std::vector<xoe::PlotPoint>& curve) {
  xoe::require(std::all_of(curve.begin(), curve.end(),
                           [](const auto& point) { return std::isfinite(point.x) && std::isfinite(point.y); }));
  xoe::require(std::is_sorted(curve.begin(), curve.end(), [](const auto& a, const auto& b) { return a.x < b.x; }));
}

void check(const xoe::pages::RunRecord& record) {
  const auto& all = record.curves;
  for (const auto* curve :
       {&all.loss, &all.accuracy, &all.held_out_loss, &all.held_out_accuracy, &all.rate, &all.images_per_s})
    check(*curve);
  for (const auto& shares : record.rank_shares) {
    double sum = 0;
    for (const double share : shares) sum += share;
    xoe::require(sum == 0 || std::abs(sum - 1) < 1e-6);
  }
}

}  // namespace

XOE_FUZZ_TARGET(run_record_fuzz) {
  using namespace xoe::pages;
  const std::string folder = "/dev/shm/xoe-test-run-fuzz-" + std::to_string(::getpid());
  ::mkdir(folder.c_str(), 0700);
  std::string_view rest(reinterpret_cast<const char*>(bytes), size);
  for (const char* name : kNames) {
    const auto end = std::min(rest.find(kBetween), rest.size());
    put(folder + "/" + name, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }

  const auto record = read_run(folder);
  xoe::require(record.has_value());
  check(*record);
  ReportedRun run = {.folder = "runs/a", .record = *record};
  if (auto read = read_timeline(folder + "/timeline.json", kView)) run.timeline = std::move(*read);
  const std::string html = report_page({&run, 1});
  for (const std::string& line : xoe::split_text(html, '\n')) xoe::require(xoe::printable_utf8(line) == line);

  for (const char* name : kNames) ::unlink((folder + "/" + name).c_str());
  ::rmdir(folder.c_str());
  return 0;
}
