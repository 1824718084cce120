#include "core/bootstrap/sealed_stream.h"

#include <sodium.h>

#include <algorithm>
#include <array>

#include "core/base/error.h"

namespace xoe::bootstrap {
namespace {

static_assert(kProofBytes == crypto_aead_chacha20poly1305_ietf_KEYBYTES);

constexpr std::size_t kTagBytes = crypto_aead_chacha20poly1305_ietf_ABYTES;

using Nonce = std::array<unsigned char, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

unsigned char* bytes_of(char* text) { return reinterpret_cast<unsigned char*>(text); }
const unsigned char* bytes_of(const char* text) { return reinterpret_cast<const unsigned char*>(text); }

Nonce nonce_of(std::uint64_t record) {
  Nonce nonce{};
  for (std::size_t i = 0; i < sizeof record; ++i)
    nonce[nonce.size() - sizeof record + i] = static_cast<unsigned char>(record >> (8 * i) & 0xff);
  return nonce;
}

std::string header_of(std::size_t length) {
  std::string header;
  append_little(header, static_cast<std::uint32_t>(length));
  return header;
}

}  // namespace

SessionKeys session_keys(std::string_view secret, End self, std::string_view client_said,
                         std::string_view server_said) {
  const auto key = [&](std::string_view sender) {
    return make_key(secret, fmt::format("session {} {} {} ", sender, client_said.size(), server_said.size())
                                .append(client_said)
                                .append(server_said));
  };
  std::string client = key("client"), server = key("server");
  if (self == End::kClient) return {.send = std::move(client), .receive = std::move(server)};
  return {.send = std::move(server), .receive = std::move(client)};
}

void Sealer::seal(std::string_view plain, std::string& out) {
  while (!plain.empty()) {
    const std::string_view part = plain.substr(0, kMaxRecord);
    plain.remove_prefix(part.size());
    const std::string header = header_of(part.size() + kTagBytes);
    out.append(header);
    const std::size_t place = out.size();
    out.resize(place + part.size() + kTagBytes);
    ::crypto_aead_chacha20poly1305_ietf_encrypt(bytes_of(out.data() + place), nullptr, bytes_of(part.data()),
                                                part.size(), bytes_of(header.data()), header.size(), nullptr,
                                                nonce_of(records_++).data(), bytes_of(key_.data()));
  }
}

Status Opener::open(std::string_view arrived, std::string& plain) {
  buffer_.append(arrived);
  while (const auto length = buffer_.next_length()) {
    if (*length <= kTagBytes || *length > kMaxRecord + kTagBytes)
      return failure(Code::kDataLoss, "what arrived was changed on its way");
    const auto record = buffer_.next(kMaxRecord + kTagBytes);
    if (!record) return {};  // the rest of it has not arrived
    const std::string header = header_of(record->size());
    const std::size_t place = plain.size();
    plain.resize(place + record->size() - kTagBytes);
    if (::crypto_aead_chacha20poly1305_ietf_decrypt(
            bytes_of(plain.data() + place), nullptr, nullptr, bytes_of(record->data()), record->size(),
            bytes_of(header.data()), header.size(), nonce_of(records_++).data(), bytes_of(key_.data())) != 0) {
      plain.resize(place);
      return failure(Code::kDataLoss, "what arrived was changed on its way");
    }
  }
  return {};
}

}  // namespace xoe::bootstrap
