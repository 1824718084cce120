// The table of the engine's options. The variable of a line is XOE_ and its name in capitals.
#pragma once

#include <tuple>

#include "core/describe/field.h"
#include "xoe/engine.h"

namespace xoe {

constexpr auto fields_of(const EngineOptions*) {
  using O = EngineOptions;
  using describe::field;
  constexpr double kMostBytes = 0x1p40;
  constexpr double kMostSeconds = 1e9;
  return std::tuple(
      field<&O::fusion_threshold>("fusion_threshold", {.most = kMostBytes, .is_bytes = true}),
      field<&O::pack_limit>("pack_limit", {.most = kMostBytes, .is_bytes = true}),
      field<&O::in_flight>("in_flight", {.least = 1, .most = 8}), field<&O::tune>("tune"),
      field<&O::tune_file>("tune_file"), field<&O::cache_capacity>("cache_capacity", {.least = 1, .most = 0x1p20}),
      field<&O::bucket_bytes>("bucket_bytes", {.most = kMostBytes, .is_bytes = true}),
      field<&O::codec_state>("codec_state", {.most = kMostBytes, .is_bytes = true}),
      field<&O::progress_thread>("progress_thread"),
      field<&O::stall_warning>("stall_warning", {.least = 0, .most = kMostSeconds}),
      field<&O::stall_limit>("stall_limit", {.least = 0, .most = kMostSeconds}), field<&O::timeline>("timeline"),
      field<&O::nvtx>("nvtx"), field<&O::metrics_port>("metrics_port", {.least = 1, .most = 65535}));
}

}  // namespace xoe
