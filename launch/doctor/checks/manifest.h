// The lines of a pod's manifest that mend what a check has found. Each check gives them beside its remedy; outside of
// Kubernetes they are dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace xoe::doctor {

// Below the container NAME, and below the pod's spec; either may be empty.
std::string manifest_lines(std::string_view container, std::string_view pod);

inline constexpr std::string_view kOneGpu = R"(resources: {limits: {nvidia.com/gpu: "1"}})";
inline constexpr std::string_view kRuntimesSeccomp = "securityContext: {seccompProfile: {type: RuntimeDefault}}";

// "resources: {limits: {memory: 4Gi}}", rounded up.
std::string memory_limit_line(std::uint64_t bytes);

}  // namespace xoe::doctor
