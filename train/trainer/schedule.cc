#include "train/trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::train {
namespace {

double rate_of_pieces(const std::vector<RatePiece<std::int64_t>>& pieces, std::int64_t step) noexcept {
  double rate = pieces.front().rate;
  for (const auto& piece : pieces)
    if (piece.from <= step) rate = piece.rate;
  return rate;
}

// Also of more than any run has.
std::int64_t whole_steps(double steps) noexcept {
  constexpr double kMost = 1e18;
  return std::llround(std::min(steps, kMost));
}

}  // namespace

Result<std::vector<RatePiece<double>>> parse_rate_pieces(std::string_view text) {
  const auto wrong = [text](std::string_view why) {
    return failure(Code::kInvalidArgument,
                   "{}: {}; expected rates with the epochs between them in which they change, as 0.1;30;0.01", text,
                   why);
  };
  std::vector<RatePiece<double>> pieces;
  double from = 0;
  bool is_rate = true;
  for (const std::string& word : split_text(text, ';')) {
    const auto number = parse_number(word);
    if (!number || !std::isfinite(*number) || *number < 0)
      return wrong(fmt::format("\"{}\" is no number from 0 on", word));
    if (is_rate) {
      pieces.push_back({.from = from, .rate = *number});
    } else {
      if (*number <= from) return wrong(fmt::format("epoch {} does not come after epoch {}", *number, from));
      from = *number;
    }
    is_rate = !is_rate;
  }
  if (is_rate) return wrong("the last number must be a rate");
  return pieces;
}

double learning_rate(const Schedule& schedule, std::int64_t step) noexcept {
  if (step < schedule.warmup_steps) {
    const double top = schedule.pieces.empty() ? schedule.peak : schedule.pieces.front().rate;
    return top * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  if (!schedule.pieces.empty()) return rate_of_pieces(schedule.pieces, step);
  const auto length = static_cast<double>(std::max<std::int64_t>(1, schedule.total_steps - schedule.warmup_steps));
  const double passed = std::min(1.0, static_cast<double>(step - schedule.warmup_steps) / length);
  return schedule.peak * 0.5 * (1.0 + std::cos(std::numbers::pi * passed));
}

double scaled_rate(double rate, int reference_batch, std::int64_t images_per_step) noexcept {
  return reference_batch == 0 ? rate : rate * static_cast<double>(images_per_step) / reference_batch;
}

Schedule make_schedule(const TrainOptions& options, double steps_per_epoch, std::int64_t total_steps,
                       std::int64_t images_per_step) {
  const double epoch = options.synthetic_epoch > 0
                           ? static_cast<double>(options.synthetic_epoch) / static_cast<double>(images_per_step)
                           : steps_per_epoch;
  // Without epochs, a twentieth of the run.
  const double warmup = epoch > 0 ? options.lr_warmup_epochs * epoch : static_cast<double>(total_steps) / 20;
  Schedule schedule = {.peak = scaled_rate(options.lr, options.lr_batch, images_per_step),
                       .warmup_steps = whole_steps(warmup),
                       .total_steps = total_steps};
  if (options.lr_schedule.empty()) {
    schedule.warmup_steps = std::min(schedule.warmup_steps, total_steps / 2);  // the cosine needs the rest
    return schedule;
  }
  schedule.peak = 0;
  const auto pieces = parse_rate_pieces(options.lr_schedule);
  for (const auto& piece : pieces.value_or(std::vector<RatePiece<double>>())) {
    schedule.pieces.push_back({.from = whole_steps(piece.from * epoch), .rate = piece.rate});
    schedule.peak = std::max(schedule.peak, piece.rate);
  }
  return schedule;
}

}  // namespace xoe::train
