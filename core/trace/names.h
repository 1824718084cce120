// Names of the timeline's lanes, spans and arguments: the engine and `xoe train` write them, `xoe timeline` understands
// them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xoe::trace {

// Rows of bars, which nest or do not overlap.
inline constexpr std::string_view kComputeLane = "compute";
inline constexpr std::string_view kInputLane = "input";
inline constexpr std::string_view kPackLane = "engine: pack";
inline constexpr std::string_view kReduceLane = "engine: reduce";
inline constexpr std::string_view kUnpackLane = "engine: unpack";
inline constexpr std::string_view kWorldLane = "world";  // why steps have a gap: other ranks than before

// Categories of spans, which are named by their tensor and may overlap.
inline constexpr std::string_view kNegotiate = "negotiate";  // submitted -> agreed upon; note: waited_for_text()
inline constexpr std::string_view kQueue = "queue";          // agreed upon -> started

// Keys of arguments.
inline constexpr std::string_view kBatch = "batch";      // counts the fused collectives of this rank
inline constexpr std::string_view kTensors = "tensors";  // in the batch
inline constexpr std::string_view kBytes = "bytes";
inline constexpr std::string_view kNote = "note";  // the one argument that is text

// An event: so many tensors have had no spans since the last one.
inline constexpr std::string_view kLeftOut = "spans left out";

// Names of events that describe the file.
inline constexpr std::string_view kClockEvent = "xoe_clock";
inline constexpr std::string_view kDroppedEvent = "dropped events";

// The position of a lane in viewers, from 1; 0: not one of the above.
int lane_order(std::string_view lane) noexcept;
// "engine: reduce"; "allreduce ..." of earlier trainers.
bool is_communication(std::string_view lane) noexcept;
bool is_input(std::string_view lane) noexcept;
// Of lanes, and of categories of spans: "negotiate"; "wait for peers" of earlier trainers.
bool is_waiting(std::string_view lane) noexcept;

// "waited for ranks 1, 3"; "" for none. The inverse ignores any other text.
std::string waited_for_text(std::span<const int> ranks);
std::vector<int> ranks_waited_for(std::string_view text);

}  // namespace xoe::trace
