// Which pool a verb asks, as whom, and how it tells what went wrong.
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/make_folder.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "core/base/utf8.h"
#include "pool/cli/verbs.h"

namespace xoe::tools::pool {
namespace {

using xoe::printable_utf8;

std::string home() { return Env::process().text("HOME").value_or("."); }

Result<std::string> read_token(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0)
    return failure(Code::kInvalidArgument,
                   "there is no token in {}: put the one there that `xoe pool user` gave for you, and chmod 600 it",
                   path);
  if ((facts.st_mode & 077) != 0)
    return failure(Code::kInvalidArgument, "the token {} must be accessible to this user only: chmod 600 it", path);
  XOE_ASSIGN(const std::string text, read_text_file(path));
  return std::string(trimmed(text));
}

constexpr std::size_t kMostFiles = 32;  // of leases, before those that have ended are looked for

std::string lease_folder() { return data_folder() + "/leases"; }

// Of the files of all leases of the pool; the number follows.
std::string lease_prefix(const Connection& connection) {
  std::string pool = connection.url;
  std::ranges::replace_if(
      pool, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.'; }, '_');
  return pool + "-";
}

std::string lease_file(const Connection& connection, std::int64_t id) {
  return fmt::format("{}/{}{}", lease_folder(), lease_prefix(connection), id);
}

std::vector<std::int64_t> remembered_leases(const Connection& connection) {
  const std::string prefix = lease_prefix(connection);
  std::vector<std::int64_t> ids;
  std::error_code error;  // ends the look
  std::filesystem::directory_iterator files(lease_folder(), error);
  for (; !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
    const std::string name = files->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    if (const auto id = parse_integer(name.substr(prefix.size()))) ids.push_back(*id);
  }
  return ids;
}

// plain: what a number without a unit counts, in seconds; 0: it needs one.
std::optional<Span> parse_span(std::string text, double plain) {
  double unit = plain;
  if (!text.empty())
    for (const auto& [letter, seconds] : {std::pair('s', 1.0), {'m', 60.0}, {'h', 3600.0}, {'d', 86400.0}})
      if (text.back() == letter) {
        unit = seconds;
        text.pop_back();
        break;
      }
  const auto number = parse_number(text);
  if (!number || !(*number > 0) || unit == 0 || *number * unit > 1e10) return std::nullopt;
  return Span(static_cast<std::int64_t>(std::llround(*number * unit * 1000)));
}

}  // namespace

std::string data_folder() { return home() + "/.local/share/xoe/pool"; }
std::string default_token_file() { return home() + "/.config/xoe/pool-token"; }

CLI::Option* add_member_flag(CLI::App& verb, Json& body, const std::string& name, const char* member,
                             const std::string& what, bool value) {
  return verb.add_flag_callback(
      name, [&body, member, value] { body[member] = value; }, what);
}

void add_connection_options(CLI::App& verb, Connection& connection) {
  const Env env = Env::process();
  connection.url = env.text("XOE_POOL").value_or(fmt::format("http://127.0.0.1:{}", kDefaultPort));
  connection.token_file = env.text("XOE_POOL_TOKEN_FILE").value_or(default_token_file());
  verb.add_option("--pool", connection.url, "the pool's address; else XOE_POOL")
      ->type_name("URL")
      ->default_str(fmt::format("http://127.0.0.1:{}", kDefaultPort));
  verb.add_option("--token-file", connection.token_file, "your token; else XOE_POOL_TOKEN_FILE")
      ->type_name("FILE")
      ->default_str("~/.config/xoe/pool-token");
  verb.add_option("--tls-ca", connection.ca_file, "certificates to trust, if not the system's")->type_name("FILE");
  verb.add_flag("--json", connection.json, "print one JSON object");
}

Result<Client> connect(const Connection& connection, Span timeout) {
  XOE_ASSIGN(std::string token, read_token(connection.token_file));
  return Client::create(
      {.url = connection.url, .token = std::move(token), .ca_file = connection.ca_file, .timeout = timeout});
}

Result<Client> connect_briefly(const Connection& connection) {
  XOE_ASSIGN(std::string token, read_token(connection.token_file));
  return Client::create({.url = connection.url,
                         .token = std::move(token),
                         .ca_file = connection.ca_file,
                         .timeout = Span(0),
                         .answer_limit = std::chrono::seconds(2)});
}

int fail(const Error& error) {
  fmt::print(stderr, "xoe pool: {}\n", printable_utf8(error.message()));
  return error.code() == Code::kUnavailable ? kNoServer : kFailed;
}

int fail(const Reply& reply) {
  fmt::print(stderr, "xoe pool: {}\n", printable_utf8(reply.message()));
  return is_for_good(reply) ? kNotAllowed : kFailed;
}

bool may_pass(const Reply& reply) {
  constexpr int kTooManyRequests = 429;
  return reply.status >= 500 || reply.status == kTooManyRequests;
}

bool is_for_good(const Reply& reply) { return reply.status == 401 || reply.status == 403; }

int print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) == 0) return 0;
  fmt::print(stderr, "xoe pool: cannot write the output: {}\n", errno_text(errno));
  return kFailed;
}

void add_span_option(CLI::App& verb, const std::string& name, Span& value, const std::string& what) {
  std::string usual = xoe::pool::span_text(value);
  verb.add_option_function<std::string>(
          name,
          [&value, name](const std::string& given) {
            const bool needs_unit = name == "--for";  // `--for 4` means four hours to its writer
            const auto span = parse_span(given, needs_unit ? 0 : 1);
            if (!span)
              throw CLI::ValidationError(fmt::format("{} {}: expected a time{}, such as 90s, 30m, 4h or 2d", name,
                                                     given, needs_unit ? " with its unit" : ""),
                                         CLI::ExitCodes::ValidationError);
            value = *span;
          },
          what)
      ->type_name("TIME")
      ->default_str(usual);
}

Result<std::string> lease_token(const Connection& connection, std::int64_t id) {
  const std::string path = lease_file(connection, id);
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (error)
    return failure(Code::kInvalidArgument, "cannot look for the token of lease {} in {}: {}", id, path,
                   error.message());
  if (!exists)
    return failure(Code::kInvalidArgument, "lease {} was not acquired from here: its token is not in {}", id, path);
  return read_token(path);
}

void forget_lease(const Connection& connection, std::int64_t id) {
  std::error_code ignored;
  std::filesystem::remove(lease_file(connection, id), ignored);
}

// A lease has its file when the pool has it, so one that the pool does not have any more has ended. The list of files
// is older than the pool's answer.
void forget_ended_leases(Client& client, const Connection& connection) {
  const std::vector<std::int64_t> ids = remembered_leases(connection);
  if (ids.size() <= kMostFiles) return;
  const auto status = client.get("/v1/status");
  if (!status || !status->ok()) return;  // the next lease looks again
  std::set<std::int64_t> here;
  for (const char* const name : {"leases", "queue"}) {
    const Json* const list = member_of(status->body, name);
    if (list == nullptr) return;
    for (const Json& lease : *list) here.insert(id_of(lease));
  }
  for (const std::int64_t id : ids)
    if (!here.contains(id)) forget_lease(connection, id);
}

Status remember_lease(const Connection& connection, std::int64_t id, const std::string& token) {
  const std::string path = lease_file(connection, id);
  if (!make_folder_of(path))
    return failure(Code::kUnavailable, "cannot make the folder of {}: {}", path, errno_text(errno));
  forget_lease(connection, id);  // of a pool that began again
  XOE_ASSIGN([[maybe_unused]] const bool made, create_private_file(path, token));
  return {};
}

}  // namespace xoe::tools::pool
