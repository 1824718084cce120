#include "manners/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace xoe::manners {

bool colours_wanted(int fd, const Env& env) { return ::isatty(fd) == 1 && !env.has("NO_COLOR"); }

int terminal_width(int fd, int otherwise) {
  winsize size = {};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

}  // namespace xoe::manners
