#include "pool/server/system_certificates.h"

#include <openssl/x509.h>

#include <filesystem>

namespace xoe::pool {
namespace {

namespace fs = std::filesystem;

// Debian, RHEL and Fedora (two places), SUSE, Alpine.
constexpr const char* kFiles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                  "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem",
                                  "/etc/ssl/cert.pem"};

// In a folder OpenSSL looks for files that are named by a hash: "5ed36f99.0".
bool is_hashed(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename();
  return name.size() > 9 && name[8] == '.' && name.find_first_not_of("0123456789abcdef") == 8;
}

bool openssl_finds_them(const Env& env, const std::string& root) {
  if (env.has(X509_get_default_cert_file_env()) || env.has(X509_get_default_cert_dir_env())) return true;
  std::error_code error;
  if (fs::exists(root + X509_get_default_cert_file(), error)) return true;
  fs::directory_iterator entry(root + X509_get_default_cert_dir(), error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    if (is_hashed(*entry)) return true;
  return false;
}

}  // namespace

std::string system_certificates(const Env& env, const std::string& root) {
  if (openssl_finds_them(env, root)) return {};
  std::error_code error;
  for (const char* const file : kFiles)
    if (fs::exists(root + file, error)) return root + file;
  return {};
}

}  // namespace xoe::pool
