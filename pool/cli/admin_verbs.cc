// xoe pool team, user, backup: for admins.
#include <filesystem>

#include "core/base/error.h"
#include "core/base/random_token.h"
#include "core/command_line/parse/command_line.h"
#include "pool/cli/field_options.h"
#include "pool/cli/verbs.h"
#include "pool/server/wire.h"

namespace xoe::tools::pool {
namespace {

struct AdminOptions {
  Connection connection = {};
  Json body = Json::object();
  bool remove = false;
};

int send(const AdminOptions& options, const char* path) {
  auto client = connect(options.connection);
  if (!client) return fail(client.error());
  const auto reply = client->post(path, options.body);
  if (!reply) return fail(reply.error());
  if (!reply->ok()) return fail(*reply);
  if (options.connection.json) return print(xoe::pool::to_text(reply->body) + "\n");
  const auto token = reply->body.find("token");
  return token == reply->body.end() ? 0 : print(token->get<std::string>() + "\n");
}

// Of a file on the server's host, which may have another working directory.
std::string absolute_path(const std::string& path) {
  std::error_code error;
  std::string absolute = std::filesystem::absolute(path, error).string();
  if (error)
    throw CLI::ValidationError(fmt::format("FILE \"{}\" is no path: {}", path, error.message()),
                               CLI::ExitCodes::ValidationError);
  return absolute;
}

}  // namespace

void add_admin_verbs(CLI::App& app, int& code) {
  const auto of_team = std::make_shared<AdminOptions>();
  CLI::App* const team = app.add_subcommand("team", "make or change a team (admins)");
  add_connection_options(*team, of_team->connection);
  add_member<std::string>(*team, of_team->body, "NAME", "name", "of the team")->required();
  add_field_options<xoe::pool::Team>(*team, of_team->body);
  add_member_flag(*team, of_team->body, "--no-borrowing", "may_borrow", "it may not use what others leave", false);
  add_member_flag(*team, of_team->body, "--borrowing", "may_borrow", "it may; the default of a new team");
  team->callback([of_team, &code] { code = send(*of_team, "/v1/teams"); });

  const auto of_user = std::make_shared<AdminOptions>();
  CLI::App* const user = app.add_subcommand("user", "make or change a user (admins); prints a new one's token");
  add_connection_options(*user, of_user->connection);
  add_member<std::string>(*user, of_user->body, "NAME", "name", "of the user")->required();
  add_field_options<xoe::pool::wire::UserForm>(*user, of_user->body);
  user->add_flag("--remove", of_user->remove, "remove it; its leases stay until they end");
  user->callback([of_user, &code] {
    // Of our choice, so that an answer that is lost costs nothing: the request is sent again.
    const auto token = random_token();
    if (!token) {
      code = fail(token.error());
      return;
    }
    of_user->body["token"] = *token;
    if (of_user->remove) of_user->body = {{"name", of_user->body.at("name")}};
    code = send(*of_user, of_user->remove ? "/v1/users/remove" : "/v1/users");
  });

  const auto of_host = std::make_shared<AdminOptions>();
  CLI::App* const forget =
      app.add_subcommand("forget", "forget a host that is gone, with its GPUs; it comes back with a report (admins)");
  add_connection_options(*forget, of_host->connection);
  add_member<std::string>(*forget, of_host->body, "HOST", "name", "that is offline")->required();
  forget->callback([of_host, &code] { code = send(*of_host, "/v1/hosts/forget"); });

  const auto of_backup = std::make_shared<AdminOptions>();
  CLI::App* const backup =
      app.add_subcommand("backup", "write the database to a new file of the server's host (admins)");
  add_connection_options(*backup, of_backup->connection);
  backup
      ->add_option_function<std::string>(
          "FILE", [of_backup](const std::string& path) { of_backup->body["path"] = absolute_path(path); },
          "that does not exist yet")
      ->required();
  backup->callback([of_backup, &code] { code = send(*of_backup, "/v1/backup"); });
}

}  // namespace xoe::tools::pool
