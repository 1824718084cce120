// The certificates that a system trusts, wherever it keeps them.
#include "pool/server/system_certificates.h"

#include <gtest/gtest.h>
#include <openssl/x509.h>

#include <filesystem>

#include "core/testing/scratch.h"

namespace xoe::pool::testing {
namespace {

TEST(SystemCertificates, AreFoundWhereEachSystemKeepsThem) {
  const Scratch system;
  const auto found = [&](const Env& env = {}) { return system_certificates(env, system.path()); };
  EXPECT_EQ(found(), "") << "a bare system has none";
  for (const std::string file : {"/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/certs/ca-bundle.crt"}) {
    std::filesystem::create_directories(std::filesystem::path(system.path() + file).parent_path());
    put_file(system.path() + file, "certificates");
    EXPECT_EQ(found(), system.path() + file);
  }
  EXPECT_EQ(found(Env(std::map<std::string, std::string, std::less<>>{{"SSL_CERT_FILE", "/mine.pem"}})), "")
      << "OpenSSL takes the user's";
  const std::string usual = system.path() + X509_get_default_cert_dir();
  std::filesystem::create_directories(usual);
  put_file(usual + "/one.pem", "OpenSSL does not find it by this name");
  EXPECT_NE(found(), "");
  put_file(usual + "/5ed36f99.0", "a certificate");
  EXPECT_EQ(found(), "");
}

}  // namespace
}  // namespace xoe::pool::testing
