#include "launch/doctor/facts/pci_config.h"

#include <bitset>

#include "core/base/error.h"

// PCI Express Base Specification, chapter 7; PCI Local Bus Specification 3.0, chapter 6.
namespace xoe::doctor {
namespace {

constexpr std::size_t kHeaderBytes = 64;
constexpr std::size_t kPlainBytes = 256;
constexpr std::size_t kMaxConfigBytes = 4096;
constexpr std::uint8_t kExpress = 0x10;
constexpr std::uint16_t kAccessControl = 0x000D;
constexpr std::uint16_t kAddressTranslation = 0x000F;

class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : bytes_(bytes.first(std::min(bytes.size(), kMaxConfigBytes))) {}

  bool holds(std::size_t at, std::size_t count) const { return at + count <= bytes_.size(); }
  // The bytes must be there.
  std::uint8_t u8(std::size_t at) const { return bytes_[at]; }
  std::uint16_t u16(std::size_t at) const { return static_cast<std::uint16_t>(bytes_[at] | (bytes_[at + 1] << 8)); }
  std::uint32_t u32(std::size_t at) const { return u16(at) | (std::uint32_t{u16(at + 2)} << 16); }

 private:
  std::span<const std::uint8_t> bytes_;
};

ExpressLink read_express(const Reader& reader, std::size_t at) {
  const std::uint32_t most = reader.u32(at + 0x0C);
  const std::uint16_t now = reader.u16(at + 0x12);
  return {.port_type = (reader.u16(at + 2) >> 4) & 0xF,
          .speed = now & 0xF,
          .width = (now >> 4) & 0x3F,
          .most_speed = static_cast<int>(most & 0xF),
          .most_width = static_cast<int>((most >> 4) & 0x3F)};
}

Status read_capabilities(const Reader& reader, PciConfig& config) {
  constexpr std::uint16_t kHasList = 0x10;
  if ((reader.u16(0x06) & kHasList) == 0) return {};
  std::bitset<kPlainBytes> seen;
  for (std::size_t at = reader.u8(0x34) & ~3U; at != 0; at = reader.u8(at + 1) & ~3U) {
    if (at < kHeaderBytes) return failure(Code::kDataLoss, "capability at byte {}, within the header", at);
    // Without root's rights the rest is not shown.
    if (!reader.holds(at, 2)) return {};
    if (seen[at]) return failure(Code::kDataLoss, "the capabilities lead in a circle at byte {}", at);
    seen[at] = true;
    if (reader.u8(at) == kExpress && reader.holds(at, 0x14)) config.express = read_express(reader, at);
  }
  return {};
}

Status read_extended(const Reader& reader, PciConfig& config) {
  if (!config.express || !reader.holds(kPlainBytes, 4)) return {};
  config.extended = true;
  std::bitset<kMaxConfigBytes> seen;
  for (std::size_t at = kPlainBytes; at != 0;) {
    if (at < kPlainBytes) return failure(Code::kDataLoss, "extended capability at byte {}, below 256", at);
    if (!reader.holds(at, 4)) return failure(Code::kDataLoss, "extended capability at byte {}, beyond the end", at);
    if (seen[at]) return failure(Code::kDataLoss, "the extended capabilities lead in a circle at byte {}", at);
    seen[at] = true;
    const std::uint32_t head = reader.u32(at);
    // All zeros: none at all; all ones: the bridge above does not pass these requests on.
    if (head == 0 || head == 0xFFFFFFFFU) return {};
    const auto id = static_cast<std::uint16_t>(head);
    if (id == kAccessControl && reader.holds(at, 8))
      config.access_control = {.control = reader.u16(at + 6), .offset = at};
    if (id == kAddressTranslation && reader.holds(at, 8))
      config.address_translation = {.enabled = (reader.u16(at + 6) & 0x8000U) != 0};
    at = (head >> 20) & ~3U;
  }
  return {};
}

}  // namespace

Result<PciConfig> parse_pci_config(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kHeaderBytes)
    return failure(Code::kDataLoss, "{} bytes of PCI configuration; a header has {}", bytes.size(), kHeaderBytes);
  const Reader reader(bytes);
  PciConfig config{.vendor = reader.u16(0), .bridge = (reader.u8(0x0E) & 0x7F) == 1};
  if (config.vendor == 0xFFFF) return failure(Code::kDataLoss, "the device does not answer (all bits are set)");
  XOE_TRY(read_capabilities(reader, config));
  XOE_TRY(read_extended(reader, config));
  return config;
}

}  // namespace xoe::doctor
