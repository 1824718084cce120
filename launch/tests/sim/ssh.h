// ssh between simulated hosts: what `xoe run -H` needs of it.
#pragma once

namespace xoe::launch::sim_tests {

// `ssh ... HOST LINE`: whatever the line is, `xoe agent` runs there.
int ssh(int argc, char** argv);
// What it reaches, at port 22 of each host.
int sshd(int argc, char** argv);

}  // namespace xoe::launch::sim_tests
